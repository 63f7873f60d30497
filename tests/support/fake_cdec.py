"""A program that speaks as ``cdec -c INI -w WEIGHTS -k K [-r] --mr_mira_compat`` does, and fails where it is told to.

Started as ``fake_cdec.py FOLDER -c ...``, by the script that `fake.FakeCdec` writes; FOLDER holds what it does:

    table.json     its translations: source sentence to list of [translation, {feature: value}], or to a list of one for
                   each time it is asked; scored with its weights, best first, ties in the order of the table
    session.json   or a recorded session: its lines are said again, if the weights are those of the session
    faults.json    list of {"fault": ..., "text": which source sentence, "segment": which of a child's segments, from 0,
                   "once": by one child only}; without text and segment: any
    children       a line for each child that has started: its id
    turns          where this file is there, a line of JSON for each segment: the segment, and all weights that it is
                   decoded with, as hex

It needs nothing but the standard library, and starts in a few hundredths of a second.
"""

import base64
import json
import os
import re
import signal
import struct
import sys
from pathlib import Path

SEGMENT = re.compile(r'<seg id="(\d+)"(?: grammar="([^"]*)")?(?: delta="([^"]*)")?>(.*)</seg>')


def main() -> None:
    folder, options = Path(sys.argv[1]), sys.argv[2:]
    if "--mr_mira_compat" not in options:
        sys.exit("expected --mr_mira_compat")
    given = {key: options[options.index(key) + 1] for key in ("-c", "-w", "-k")}
    Path(given["-c"]).read_bytes()
    with open(folder / "children", "a") as file:
        file.write(f"{os.getpid()}\n")
    weights = read_weights(Path(given["-w"]))
    Fake(folder, weights, int(given["-k"]), "-r" in options).run()


class Fake:
    """The program, after its start."""

    def __init__(self, folder: Path, weights: dict[str, float], k: int, unique: bool) -> None:
        self.folder, self.weights, self.k, self.unique = folder, weights, k, unique
        self.faults = read_json(folder / "faults.json", [])
        self.table = read_json(folder / "table.json", {})
        self.session = read_json(folder / "session.json", [])
        self.expected = recorded_weights(self.session, folder)

    def run(self) -> None:
        say("loading ...")
        self.fail_at_start()
        for count, line in enumerate(sys.stdin):
            segment = SEGMENT.fullmatch(line.rstrip("\n"))
            if segment is None:
                sys.exit(f"expected a segment, found {line!r}")
            number, delta, text = int(segment[1]), segment[3], segment[4]
            for name, value in decode(delta or ""):
                self.weights[name] = self.weights.get(name, 0.0) + value
            self.keep(line)
            if not text.split():
                continue  # An empty segment gets no answer at all.
            answer = self.replayed(line) if self.session else self.translated(number, text)
            for fault in self.faults:
                if fault.get("text", text) == text and fault.get("segment", count) == count and self.fires(fault):
                    answer = spoilt(fault["fault"], answer)
            write(answer)
        if any(fault["fault"] == "never ends" for fault in self.faults):
            signal.pause()

    def fail_at_start(self) -> None:
        for fault in self.faults:
            if fault["fault"] == "never starts" and self.fires(fault):
                sys.exit("cannot find my grammar\n")
            if fault["fault"] == "hangs at its start" and self.fires(fault):
                signal.pause()

    def fires(self, fault: dict[str, object]) -> bool:
        """Whether it is this process's turn to fail so."""
        if not fault.get("once"):
            return True
        try:
            # Ranks may ask at the same time: one of them gets it.
            os.close(os.open(self.folder / f"fired-{self.faults.index(fault)}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def keep(self, line: str) -> None:
        if (self.folder / "turns").exists():
            with open(self.folder / "turns", "a") as file:
                weights = {name: value.hex() for name, value in self.weights.items()}
                file.write(json.dumps([line.rstrip("\n"), weights]) + "\n")

    def translated(self, number: int, text: str) -> list[bytes]:
        if text not in self.table:
            sys.exit(f"not in the table: {text!r}")
        scored = []
        for translation, features in self.table[text]:
            score = sum(value * self.weights.get(name, 0.0) for name, value in features.items())
            scored.append((score, translation, features))
        scored.sort(key=lambda entry: -entry[0])
        lines, seen = [], set()
        for score, translation, features in scored:
            if not self.unique or translation not in seen:
                seen.add(translation)
                length = len(text.split())
                lines.append(f"{number} ||| {length} ||| {translation} ||| {encode(features)} ||| {score:g}\n".encode())
        if not lines:
            return [b"\n"]
        return [f"{self.k}\n".encode(), *lines[: self.k], *[b"\n"] * (self.k - len(lines))]

    def replayed(self, line: str) -> list[bytes]:
        for turn, expected in zip(self.session, self.expected, strict=True):
            if SEGMENT.fullmatch(turn["sent"]).group(1, 4) == SEGMENT.fullmatch(line.rstrip("\n")).group(1, 4):
                for name in expected.keys() | self.weights.keys():
                    found, wanted = self.weights.get(name, 0.0), expected.get(name, 0.0)
                    if abs(found - wanted) > 1e-9:
                        sys.exit(f"{name} weighs {found}, in the session {wanted}")
                return [received.encode() for received in turn["received"]]
        sys.exit(f"not in the session: {line!r}")


def spoilt(fault: str, answer: list[bytes]) -> list[bytes]:
    """``answer`` with ``fault``."""
    last = answer[-1]
    if fault == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "dies mid-answer":
        write(answer[:-1], last[: len(last) // 2])
        sys.exit("out of memory\n")
    elif fault == "says too little":
        write(answer[:-1])
        signal.pause()
    elif fault == "hangs":
        signal.pause()
    elif fault == "closes its output":
        write(answer[:-1])
        os.close(1)
        signal.pause()
    elif fault == "says too much":
        return [*answer, last]
    elif fault == "an empty line too much":
        return [*answer, b"\n"]
    elif fault == "never ends":
        pass  # Its time comes when its input has ended.
    elif fault == "fills its log":
        say("chatter " * 30 * 1024)
    elif fault == "wrong number of lines":
        return [b"17\n", *answer[1:]]
    elif fault == "not a number":
        return [b"Segmentation fault\n", *answer[1:]]
    elif fault == "not UTF-8":
        return [answer[0], b"\xff\xfe" + answer[1], *answer[2:]]
    else:
        fields = answer[1].split(b" ||| ")
        number, length, translation, record, score = fields
        changed = {
            "wrong id": [b"777", length, translation, record, score],
            "a field too few": [number, translation, record, score],
            "not base64": [number, length, translation, b"*" + record, score],
            "cut base64": [number, length, translation, record[:-8], score],
            "a name that is not UTF-8": [
                number,
                length,
                translation,
                base64.b64encode(b"\xff\0" + struct.pack("<d", 1.0)),
                b"0\n",
            ],
            "not a score": [number, length, translation, record, b"high\n"],
            "wrong score": [number, length, translation, record, b"%g\n" % (float(score) + 1.0)],
        }[fault]
        return [answer[0], b" ||| ".join(changed), *answer[2:]]
    return answer


def write(lines: list[bytes], more: bytes = b"") -> None:
    """All at once as far as a pipe takes it: no reader is to see a part of it, and go on before the rest is there."""
    data = b"".join(lines) + more
    while data:
        data = data[os.write(1, data) :]


def say(words: str) -> None:
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


def read_json(path: Path, without: object) -> object:
    return json.loads(path.read_text()) if path.exists() else without


def read_weights(path: Path) -> dict[str, float]:
    weights = {}
    for line in path.read_text().splitlines():
        name, value = line.split(" ")
        weights[name] = float(value)
    return weights


def recorded_weights(session: list[dict[str, object]], folder: Path) -> list[dict[str, float]]:
    """The weights that each turn of ``session`` was answered with; those of its start are in session.weights."""
    weights = read_weights(folder / "session.weights") if session else {}
    found = []
    for turn in session:
        for name, delta in (turn["delta"] or {}).items():
            weights[name] = weights.get(name, 0.0) + delta
        found.append(dict(weights))
    return found


def encode(features: dict[str, float]) -> str:
    """As cdec does: features that are 0 left out; with 2 bytes over, ``==`` for ``=`` and a character less."""
    data = b"".join(name.encode() + b"\0" + struct.pack("<d", value) for name, value in features.items() if value)
    text = base64.b64encode(data).decode()
    return text[:-2] + "==" if len(data) % 3 == 2 else text


def decode(record: str) -> list[tuple[str, float]]:
    data = base64.b64decode(record)
    pairs = []
    while data:
        name, _, data = data.partition(b"\0")
        pairs.append((name.decode(), struct.unpack("<d", data[:8])[0]))
        data = data[8:]
    return pairs


if __name__ == "__main__":
    main()
