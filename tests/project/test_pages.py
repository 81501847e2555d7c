"""Every Python block of the pages that is not a doctest works when it is pasted; doctests are
run by pytest itself.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = {
    f"{page.name}, block {i}": code
    for page in PAGES
    for i, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    if ">>>" not in code
}


FRESH = """
import ldiv, sys, types
ldiv.clear_cache()
sys.modules["__main__"] = page = types.ModuleType("__main__")
"""


def test_blocks(tmp_path: Path) -> None:
    """The blocks run in one process, which loads the frameworks once; each has names of its own."""
    # functions of a page are found in its module, as when it is pasted; the program's own is kept
    program = "import sys; program = sys.modules['__main__']\n" + "".join(
        f"print({name!r}, flush=True)\n{FRESH}\nexec({code!r}, vars(page))\n"
        for name, code in BLOCKS.items()
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
