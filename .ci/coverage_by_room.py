"""coverage.json as a table: lines and branches of each room of src/ldiv that tests run through."""

import json
import sys
from collections import defaultdict
from pathlib import Path

WANTED = 90  # percent: what is below is looked at


def room(path: str) -> str:
    return Path(path).parent.as_posix().partition("ldiv")[2].strip("/") or "ldiv"


def main(path: str) -> None:
    seen: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, found in json.loads(Path(path).read_text())["files"].items():
        of = found["summary"]
        seen[room(name)][0] += of["covered_lines"] + of["covered_branches"]
        seen[room(name)][1] += of["num_statements"] + of["num_branches"]
    for name, (covered, total) in sorted(seen.items()):
        percent = 100 * covered / max(total, 1)
        print(f"{name:24} {percent:5.1f} %" + "   look at it" * (percent < WANTED))


if __name__ == "__main__":
    main(sys.argv[1])
