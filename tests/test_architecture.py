"""The house rules that can be read off the sources: who imports whom, the doors, where `rank` is compared."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from support.registered import registers

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "mpitune"
MODULES = {path.relative_to(PACKAGE).with_suffix("").as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}

LAYERS = [
    {"early_signals", "errors", "jit", "child_launcher", "__init__", "registry"},
    {"files", "portable_math", "schema"},
    {"ownership"},
    {"array_files"},
    {"corpus"},
    {"lm", "grammar"},
    {"extraction"},
    {"decoder"},
    {"metrics"},
    {"learner"},
    {"runtime"},
    {"exchange"},
    {"config"},
    {"store"},
    {"run_folder"},
    {"report"},
    {"training"},
    {"api"},
    {"cli"},
    {"__main__"},
]
"""Packages, and modules at the top; each imports only from its own package and from earlier lines."""

DOORS = {
    "mpi4py": {"exchange/comm"},
    "h5py": {"run_folder/checkpoint"},
    "sacrebleu": {"metrics/sacrebleu"},
    "subprocess": {"decoder/cdec/process", "corpus/eflomal"},
    "llvmlite": {"jit/compiler"},
    "numba": {"jit/cache", "jit/compiler", "jit/listed"},
    "tomllib": {"config/load"},
    "matplotlib": {"report/plots"},
    "jinja2": {"report/html"},
    "rapidfuzz": {"corpus/retrieval"},
}
"""The only modules that may import what has a door."""

FILE_CALLS = {
    *("exists", "is_file", "is_dir", "is_symlink", "is_fifo", "stat", "lstat", "samefile", "access", "disk_usage"),
    *("iterdir", "glob", "rglob", "listdir", "scandir", "read_text", "read_bytes", "cwd", "getcwd"),
    *("write_text", "write_bytes", "mkdir", "touch", "rename", "unlink", "rmdir", "rmtree", "copyfile"),
}
"""Methods of paths, and functions of os and shutil, that fail where the system does; so does ``open``."""
FILE_ROOMS = {
    *(
        "files",
        "ownership",
        "jit/cache",
        "jit/listed",
        "array_files/atomic",
        "array_files/arrays",
        "array_files/cache",
    ),
    *("run_folder/checkpoint", "run_folder/layout", "run_folder/run_state", "runtime/log"),
    *("runtime/memory", "decoder/cdec/process", "cli/output", "api/opened", "cli/init", "cli/weights", "cli/warmup"),
}
"""The modules that may call them: what they write is inside of `mpitune.files.writing`, or a failure is ignored."""

OF_THE_PROCESSOR = {
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "logaddexp", "pow", "power", "float_power", "cbrt"),
    *("sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "sinh", "cosh", "tanh", "hypot", "gamma", "lgamma"),
    *("dot", "vdot", "inner", "matmul", "tensordot", "einsum", "linalg", "fft", "convolve", "correlate", "polyfit"),
}
"""Functions of math and NumPy whose results differ between processors; so do ``@``, powers and most of SciPy."""
PORTABLE_SCIPY = {"scipy.sparse.csr_array", "scipy.optimize.brentq"}
"""What does nothing but order data, or +, -, * and /."""
PROCESSOR_ROOMS = {"report", "store/estimate", "metrics/significance"}
"""Packages and modules that compute no results of runs: reports, estimates of time, significance.

The products of matrices in `significance` are sums of whole numbers.
"""

RANK_ROOMS = {"exchange", "training", "runtime"}

OF_THE_JOB = {"config", "runtime", "exchange"}
"""Packages of a job and its processes: all other packages get plain values and callbacks."""
KNOW_THE_JOB = {
    "api",
    "cli",
    "training",
    "store/extract_grammars",
    "run_folder/reader",
    "exchange/liveness",
    "config/spec",
}
"""Packages and modules that may import those nevertheless; the reader reads config.toml, and tomllib has one door; a
rank that waits for others looks whether it was asked to stop; the job names norms."""

FOR_USERS = [
    path.relative_to(ROOT).as_posix()
    for path in [ROOT / "README.md", *sorted((ROOT / "jobs").rglob("*")), *sorted((ROOT / "slurm").rglob("*"))]
    if path.is_file() and path.suffix != ".png" and not {"runs", "__pycache__"} & set(path.parts)
]
TESTS = [path for path in sorted((ROOT / "tests").rglob("*.py")) if "__pycache__" not in path.parts]
every_module = pytest.mark.parametrize("module", MODULES)


def _module_of(dotted: str) -> str:
    """mpitune.corpus.text or a name in it -> corpus/text; a package -> its folder's name; mpitune -> __init__."""
    parts = dotted.split(".")[1:]
    while parts and "/".join(parts) not in MODULES and not (PACKAGE / "/".join(parts)).is_dir():
        parts.pop()
    return "/".join(parts) or "__init__"


def _imports(tree: ast.AST, module: str) -> Iterator[tuple[str, ast.stmt]]:
    """The dotted names that ``tree`` imports, with the statement; what is imported from a module counts as its part."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                here = ["mpitune", *module.split("/")][: -node.level]
                origin = ".".join([*here, origin]).rstrip(".")
            yield from ((f"{origin}.{alias.name}", node) for alias in node.names)


def _for_types(tree: ast.Module) -> set[ast.AST]:
    """What is read by type checkers alone."""
    blocks = [node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    return {node for block in blocks for node in ast.walk(block)}


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def _layer(place: str) -> int:
    return next(number for number, places in enumerate(LAYERS) if place in places)


@every_module
def test_imports_follow_the_table(module: str) -> None:
    place = module.split("/")[0]
    if place == "__init__":  # which loads the public names when they are used
        return
    for dotted, node in _imports(_tree(module), module):
        if dotted.split(".")[0] == "mpitune":
            imported = _module_of(dotted)
            allowed = {place}.union(*LAYERS[: _layer(place)])
            assert imported.split("/")[0] in allowed, f"{module}:{node.lineno} imports {imported}"


@every_module
def test_dependencies_have_one_door(module: str) -> None:
    for_types = _for_types(_tree(module))
    for dotted, node in _imports(_tree(module), module):
        rooms = DOORS.get(dotted.split(".")[0])
        assert rooms is None or module in rooms or node in for_types, (
            f"{module}:{node.lineno} imports {dotted}, whose door is {rooms}"
        )


@every_module
def test_files_have_one_door(module: str) -> None:
    """An error of the system that passes by it is a traceback for the user."""
    if module in FILE_ROOMS:
        return
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            is_open = isinstance(node.func, ast.Name) and node.func.id == "open"
            assert name not in FILE_CALLS and not is_open, f"{module}:{node.lineno} calls {name or 'open'}"


@every_module
def test_results_do_not_depend_on_the_processor(module: str) -> None:
    """What they are computed with is in `portable_math`; a power of a number that is no literal would be libm's."""
    if {module, module.split("/")[0]} & PROCESSOR_ROOMS:
        return
    for node in ast.walk(_tree(module)):
        found = ""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("np", "math"):
            found = node.attr if node.attr in OF_THE_PROCESSOR else ""
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            found = "@"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            base, exponent = ast.unparse(node.left), ast.unparse(node.right)
            found = "" if base.isdigit() or re.fullmatch(r"[\d.]+ -?\d+", f"{base} {exponent}") else "**"
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Pow):
            found = "**="
        assert not found, f"{module}:{node.lineno} uses {found}"
    for dotted, node in _imports(_tree(module), module):
        package, _, name = dotted.partition(".")
        depends = package == "scipy" or (package in ("math", "numpy") and name in OF_THE_PROCESSOR)
        assert not depends or dotted in PORTABLE_SCIPY, f"{module}:{node.lineno} imports {dotted}"


@every_module
def test_mpi_is_imported_lazily(module: str) -> None:
    tree = _tree(module)
    inside = _for_types(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            inside.update(ast.walk(node))
    for dotted, node in _imports(tree, module):
        assert dotted.split(".")[0] != "mpi4py" or node in inside, f"{module}:{node.lineno} imports {dotted} at once"


@every_module
def test_rank_is_compared_only_in_its_rooms(module: str) -> None:
    if module.split("/")[0] in RANK_ROOMS:
        return
    for node in ast.walk(_tree(module)):
        tested: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            # A place in a list may be called rank too: that one is held against a bound, and not asked which it is.
            sides = [node.left, *node.comparators]
            which = any(isinstance(operator, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for operator in node.ops)
            tested = sides if which or any(isinstance(side, ast.Constant) for side in sides) else []
        elif isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            tested = [node.test]
        elif isinstance(node, ast.BoolOp):
            tested = node.values
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            tested = [node.operand]
        for part in tested:
            name = part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""
            assert name != "rank", f"{module}:{part.lineno} tests rank"


@every_module
def test_only_some_know_the_job(module: str) -> None:
    place = module.split("/")[0]
    if {place, module} & KNOW_THE_JOB or place == "__main__":
        return
    for dotted, node in _imports(_tree(module), module):
        if dotted.split(".")[0] == "mpitune":
            imported = _module_of(dotted).split("/")[0]
            assert imported == place or imported not in OF_THE_JOB, f"{module}:{node.lineno} imports {dotted}"


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Imports inside functions and for types alone do not count."""
    graph: dict[str, set[str]] = {}
    for module in MODULES:
        later = (ast.If, ast.FunctionDef, ast.ClassDef)
        at_once = ast.Module([node for node in _tree(module).body if not isinstance(node, later)], [])
        imported = [_module_of(dotted) for dotted, _ in _imports(at_once, module) if dotted.split(".")[0] == "mpitune"]
        graph[module] = {name if name in MODULES else f"{name}/__init__" for name in imported} - {module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


@pytest.mark.parametrize("package", sorted({module.rpartition("/")[0] for module in MODULES if "/" in module}))
def test_a_package_lists_its_modules(package: str) -> None:
    """Its docstring names each of them, but not those of single commands; a part that registers itself need not be."""
    told = ast.get_docstring(ast.parse(MODULES[f"{package}/__init__"].read_text())) or ""
    modules = {path.stem for path in (PACKAGE / package).glob("*.py")} - {"__init__"}
    if package == "cli":
        assert "every other command has a module of its name" in told
        modules -= set(re.findall(r'"(\w+):run_', MODULES["cli/options"].read_text()))
    assert not {
        module
        for module in modules
        if not re.search(rf"\b{module}\b", told) and not registers((PACKAGE / package / module).with_suffix(".py"))
    }


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_test_module_imports_another(path: Path) -> None:
    for dotted, node in _imports(ast.parse(path.read_text(encoding="utf-8")), ""):
        parts = dotted.split(".")
        assert not [part for part in parts if part.startswith("test_")], f"{path}:{node.lineno} imports {dotted}"


def test_nothing_for_users_names_a_path_of_one_machine() -> None:
    for name in FOR_USERS:
        found = re.search(r"/(tmp|root|home/[a-z]+)/", (ROOT / name).read_text(encoding="utf-8"))
        assert found is None, f"{name} holds {found and found[0]}"
