"""Kernels: functions that Numba compiles as wholes.

Numba compiles each function to machine code, with copies of all functions that it calls, which were compiled alike
before: the time grows with the depth of calls, and most of that code is never run. Here, a kernel that another calls
is only translated to LLVM's code. One that Python calls is compiled together with all those, once. Further differences
from Numba's own `njit`, each for the time of compilation (tests/bench/trials.md has figures):

- an argument that is a constant has the type of other integers: no version of a kernel is made for each constant;
- a local variable that is assigned once needs no place in memory, whatever it holds;
- Numba's passes for closures, generators, context managers and array expressions are left out;
- the type of an operation is looked up once for the same types of operands.

Kernels need no reference counting (the private option ``_nrt=False``), which is 2 to 4 times faster where kernels pass
arrays to one another. If a Numba lacks that option, they are compiled with reference counting.
"""

from __future__ import annotations

import gc
import os
import pickle
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

# With coloured error messages, Numba writes terminal codes to standard output at the end of every process.
os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")

import numba
import numpy as np
from llvmlite import ir as llvm
from llvmlite.binding import address_of_symbol
from numba.core import event, ir, types
from numba.core.analysis import compute_cfg_from_blocks, compute_use_defs, must_use_alloca
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, Flags, compile_extra, compile_result
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
from numba.core.options import DefaultOptions
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.serialize import dumps
from numba.core.typed_passes import BaseNativeLowering, NoPythonBackend, NopythonTypeInference, PreLowerStripPhis
from numba.core.typing import Context
from numba.core.typing.templates import make_concrete_template
from numba.core.untyped_passes import FixupArgs, GenericRewrites, IRProcessing, ReconstructSSA, TranslateByteCode
from numba.extending import intrinsic

from mpitune.jit.cache import CACHE, digest

COMPILED = "mpitune:kernel"
"""The event of Numba that a kernel is compiled to machine code, with ``data={"kernel": its name}``."""
REPORTED = 30.0
"""Seconds between two messages about compilation."""
LARGE = 400
"""LLVM instructions of a kernel that is called, not copied into the kernels that call it, unless it is `inlined`."""

F = TypeVar("F", bound=Callable[..., Any])

# Numba's parts have no types.
_Numba = Any
_pickled: Callable[[Any], bytes] = dumps
_OPTIONS: dict[str, Any] = {"nopython": True, "boundscheck": None, "error_model": "numpy"}
if hasattr(DefaultOptions, "_nrt"):
    _OPTIONS |= {"_nrt": False}

int64 = cast(Callable[[Any], int], numba.int64)
"""Conversion to the integer type of the kernels. An argument of another width would compile a kernel again."""
uint64 = cast(Callable[[Any], int], numba.uint64)
"""Conversion to the unsigned type, for hashes."""
at = uint64
"""Conversion of an index. An unsigned index cannot be negative, so inner loops need no check for that."""


def kernel(function: F) -> F:
    """Compile ``function`` with Numba; under ``NUMBA_DISABLE_JIT=1`` it stays plain Python."""
    return _compiled(function, inline=False)


def inlined(function: F) -> F:
    """Like `kernel`, for the bodies of inner loops: always compiled into the calling kernel, whatever its size.

    A call that is not inlined passes every field of every array on the stack.
    """
    return _compiled(function, inline=True)


def _compiled(function: F, inline: bool) -> F:
    return function if vars(numba.config)["DISABLE_JIT"] else cast(F, Kernel(function, inline))


class Kernel(CPUDispatcher):
    """A kernel, and what is compiled of it: ``overloads``, the versions that Python has called, by argument types.

    They are kept in `CACHE`, a file for each version and kind of processor.
    """

    def __init__(self, function: Callable[..., Any], inline: bool) -> None:
        super().__init__(function, targetoptions=_OPTIONS)
        self.name = f"{function.__module__}.{function.__qualname__}"
        # The version of the cache tells nothing of functions elsewhere, and the name nothing of those within others.
        self._cached = function.__module__.startswith("mpitune.") and function.__qualname__.isidentifier()
        self._inline = inline
        self._translated: dict[tuple[_Numba, ...], _Numba] = {}

    def get_call_template(self, args: _Numba, kws: _Numba) -> _Numba:
        """Numba's type of a call by another kernel."""
        signature, args = self._compiler.fold_argument_types(args, kws)
        self._translate(tuple(map(types.unliteral, args)))
        name, versions = self.py_func.__name__, [version.signature for version in self._translated.values()]
        return make_concrete_template(f"CallTemplate({name})", key=name, signatures=versions), signature, args, {}

    def get_overload(self, sig: _Numba) -> _Numba:
        """The key of a version's code for kernels that call it."""
        return self._translated[tuple(sig)].entry_point

    def _translate(self, args: tuple[_Numba, ...]) -> _Numba:
        """The version for these types, as LLVM's code."""
        with global_compiler_lock:
            if args not in self._translated:
                context, library = self.targetctx, Library(self.targetctx.codegen(), self.name, inline=self._inline)
                told = event.trigger_event("numba:compile", data={"dispatcher": self, "args": args})
                with told, self._compiling_counter:
                    found = compile_extra(
                        _typing(), context, self.py_func, args, None, _flags(), {}, library, _Compiler
                    )
                version = found._replace(entry_point=object())
                context.insert_user_function(version.entry_point, version.fndesc, [library])
                self._translated[args] = version
            return self._translated[args]

    def compile(self, sig: _Numba) -> _Numba:
        """The version for these types, as a function that Python can call: compiled, or loaded from `CACHE`."""
        args = tuple(sig)
        with global_compiler_lock:
            if args not in self.overloads:
                self.add_overload(self._load(args) or self._compile(args))
            return self.overloads[args].entry_point

    def file(self, args: tuple[_Numba, ...]) -> str:
        """The name of the version's file in `CACHE`."""
        return digest(repr(self._key(args)).encode()).hex()

    def _key(self, args: tuple[_Numba, ...]) -> tuple[Any, ...]:
        return self.name, args, self.targetctx.codegen().magic_tuple()

    def _load(self, args: tuple[_Numba, ...]) -> _Numba:
        # Whatever goes wrong with a file is mended by compiling again.
        with suppress(Exception):
            if self._cached:
                key, code, symbols, *parts = pickle.loads(CACHE.read(self.file(args)))
                # Types that differ may have the same name.
                if key == self._key(args):
                    if any(address_of_symbol(name) is None for name in symbols.needed):
                        self.targetctx.refresh()  # takes half a second
                    library = Library(self.targetctx.codegen(), self.name)
                    library.load(code, symbols)
                    return self._version(library, *parts)
        return None

    def _compile(self, args: tuple[_Numba, ...]) -> _Numba:
        if not self._cached:
            return self._version(*self._linked(args))
        CACHE.lock(self.file(args))
        try:
            # Another process may have compiled it meanwhile.
            if found := self._load(args):
                return found
            library, *parts = self._linked(args)
            if not library.has_dynamic_globals:  # addresses of this process
                saved = self._key(args), library.code, library.symbols, *parts
                CACHE.write(self.file(args), _pickled(saved))
            return self._version(library, *parts)
        finally:
            CACHE.unlock(self.file(args))

    def _linked(self, args: tuple[_Numba, ...]) -> tuple[_Numba, ...]:
        """The machine code of a version and of all that it calls; its description, environment and signature."""
        collecting = gc.isenabled()
        gc.disable()  # a sixth of the time, for objects that are nearly all in use
        try:
            with event.trigger_event(COMPILED, data={"kernel": self.name}):
                version = self._translate(args)
                description, environment = version.fndesc, version.environment
                library = Library(self.targetctx.codegen(), self.name, exported=description.llvm_cpython_wrapper_name)
                library.add_linking_library(version.library)
                self.targetctx.create_cpython_wrapper(library, description, environment, version.call_helper)
                library.finalize()
        finally:
            if collecting:
                gc.enable()
        description.typemap = description.calltypes = None  # large, and of no use any more
        return library, description, environment, version.signature

    def _version(self, library: Library, description: _Numba, environment: _Numba, signature: _Numba) -> _Numba:
        return compile_result(
            typing_context=self.typingctx,
            target_context=self.targetctx,
            entry_point=self.targetctx.get_executable(library, description, environment),
            typing_error=None,
            signature=signature,
            objectmode=False,
            library=library,
            fndesc=description,
        )


class Symbols(NamedTuple):
    """Names of functions and variables that machine code defines, and those that it needs from elsewhere."""

    defined: set[str]
    needed: set[str]


class Library(JITCodeLibrary):
    """LLVM's code of one function and what it calls.

    Either a kernel as it is translated, or, if a function is ``exported``, machine code of that with all it calls.
    """

    def __init__(self, codegen: _Numba, name: str, *, inline: bool = False, exported: str = "") -> None:
        super().__init__(codegen, name)
        self._inline = inline
        self._exported = exported
        self.enable_object_caching()

    @property
    def code(self) -> bytes:
        """The machine code."""
        return cast(bytes, self._get_compiled_object())

    @property
    def symbols(self) -> Symbols:
        """The names that the machine code defines and needs."""
        module = self._final_module
        all_ = [each for part in (module.functions, module.global_variables) for each in part]
        needed = {each.name for each in all_ if each.is_declaration and not each.name.startswith("llvm.")}
        return Symbols({each.name for each in all_ if not each.is_declaration}, needed)

    def load(self, code: bytes, symbols: Symbols) -> None:
        """Take machine code of an earlier process."""
        self._set_compiled_object(code)
        self._finalize_final_module()
        self._codegen._engine._defined_symbols |= symbols.defined

    def add_ir_module(self, module: llvm.Module) -> None:
        """Add the code of a function."""
        for function in module.functions:
            if self._inline:
                function.attributes.add("alwaysinline")
            elif sum(len(block.instructions) for block in function.blocks) > LARGE:
                function.attributes.add("noinline")
        super().add_ir_module(module)

    def add_linking_library(self, library: JITCodeLibrary) -> None:
        """Add what the function calls: it is linked when machine code is made."""
        self._linking_libraries.append(library)

    def finalize(self) -> None:
        """Make machine code."""
        for library in self._called():
            ours = isinstance(library, Library)
            self._final_module.link_in(library._final_module if ours else library._get_module_for_linking(), True)
        for function in self._final_module.functions:
            if not function.is_declaration and function.name != self._exported:
                function.linkage = "internal"
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()

    def _called(self) -> list[JITCodeLibrary]:
        """All that is called, directly or not, each once."""
        found: dict[JITCodeLibrary, None] = {}
        waiting = list(self._linking_libraries)
        while waiting:
            library = waiting.pop()
            if library not in found:
                found[library] = None
                if isinstance(library, Library):
                    waiting += library._linking_libraries
        return list(found)

    def _optimize_functions(self, module: _Numba) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        manager, builder = self._codegen._module_pass_manager()
        manager.run(self._final_module, builder)


class _Flags(Flags):
    """The options of all kernels: one object, which Numba need not copy nor compare."""

    def copy(self) -> _Flags:
        return self

    __hash__ = object.__hash__
    __eq__ = object.__eq__


@cache
def _flags() -> _Flags:
    flags = _Flags()
    cpu_target.options.parse_as_flags(flags, _OPTIONS)
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    return flags


class _Typing(Context):
    """Types of operations, remembered."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[_Numba, _Numba] = {}

    def resolve_function_type(self, func: _Numba, args: _Numba, kws: _Numba) -> _Numba:
        # Names stand for operations on values, such as fields, not on types alone.
        if kws or isinstance(func, types.Dispatcher | str):
            return super().resolve_function_type(func, args, kws)
        key = func, tuple(args)
        if key not in self._known and (signature := super().resolve_function_type(func, args, kws)) is not None:
            self._known[key] = signature
        return self._known.get(key)


@cache
def _typing() -> _Typing:
    context = _Typing()
    context.refresh()
    return context


class _Lower(Lower):
    """Translation to LLVM's code.

    Numba keeps variables that several blocks use in memory. A NamedTuple of arrays there is read as a whole for each
    use of a field, which LLVM takes long to see through.
    """

    def _find_singly_assigned_variable(self) -> None:
        """Note the variables that are assigned once, before all uses: their values are used as they are."""
        blocks = self.func_ir.blocks
        dominators = compute_cfg_from_blocks(blocks).dominators()
        used = defaultdict(set)
        for block, names in compute_use_defs(blocks).usemap.items():
            for name in names:
                used[name].add(block)
        assigned = defaultdict(list)
        for number, block in blocks.items():
            for statement in block.find_insts(ir.Assign):
                assigned[statement.target.name].append(number)
        self._blk_local_varmap: dict[str, _Numba] = {}
        self._singly_assigned_vars = {
            name
            for name, [first, *more] in assigned.items()
            if not more and all(first < block and first in dominators[block] for block in used[name])
        } - must_use_alloca(blocks)

    def delvar(self, name: str) -> None:
        if self.context.enable_nrt:
            super().delvar(name)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(BaseNativeLowering):
    _name = "kernel_lowering"

    @property
    def lowering_class(self) -> type[_Lower]:
        return _Lower

    def run_pass(self, state: _Numba) -> bool:
        state.type_annotation = None
        return cast(bool, super().run_pass(state))


class _Passes(PassManager):
    _ENFORCING = False  # does not check what each pass has done


class _Compiler(CompilerBase):
    """The passes of Numba that kernels need."""

    PASSES = (
        TranslateByteCode,
        FixupArgs,
        IRProcessing,
        GenericRewrites,
        ReconstructSSA,
        NopythonTypeInference,
        PreLowerStripPhis,
        _Lowering,
        NoPythonBackend,
    )

    def define_pipelines(self) -> list[_Passes]:
        passes = _Passes("kernel")
        for each in self.PASSES:
            passes.add_pass(each, each.__name__)
        passes.finalize()
        return [passes]


@intrinsic
def _prefetch(_: Any, array: Any, __: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), llvm.IntType(8).as_pointer())
        number = llvm.IntType(32)
        kind = llvm.FunctionType(llvm.VoidType(), [place.type, number, number, number])
        # To be read, to be kept in all caches, data.
        options = [number(0), number(3), number(1)]
        builder.call(builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind), [place, *options])
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate


def _do_nothing(array: np.ndarray, index: int) -> None:
    pass


prefetch = cast(Callable[[np.ndarray, int], None], _do_nothing if vars(numba.config)["DISABLE_JIT"] else _prefetch)
"""``prefetch(array, at(i))``: load the cache line of ``array[i]`` (one axis) without waiting for it."""


@contextmanager
def compilation_reported(log: Callable[[str], None], message: str) -> Iterator[None]:
    """Pass ``message``, and how many kernels are compiled, to ``log`` when the block compiles one.

    Not again within `REPORTED` seconds. Never if all kernels are loaded from the disk.
    """

    class Listener(event.Listener):
        last = -REPORTED
        compiled = 0

        def on_start(self, _: event.Event) -> None:
            if time.monotonic() - self.last >= REPORTED:
                self.last = time.monotonic()
                log(f"{message}; {self.compiled} compiled so far" if self.compiled else message)

        def on_end(self, _: event.Event) -> None:
            self.compiled += 1

    with event.install_listener(COMPILED, Listener()):
        yield
