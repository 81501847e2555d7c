"""Workflows, issue forms and the citation file against the schemas that check-jsonschema brings."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FORMS = ".github/ISSUE_TEMPLATE"
FILES = {
    "github-workflows": sorted(ROOT.glob(".github/workflows/*.yml")),
    "github-issue-forms": [p for p in sorted(ROOT.glob(f"{FORMS}/*.yml")) if p.stem != "config"],
    "github-issue-config": [ROOT / FORMS / "config.yml"],
    "dependabot": [ROOT / ".github/dependabot.yml"],
    "citation-file-format": [ROOT / "CITATION.cff"],
}
AS_YAML = ("--force-filetype", "yaml")


def failures() -> list[str]:
    """What check-jsonschema says of each file that its schema does not allow."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    runs = [
        subprocess.run(
            [*command, f"vendor.{schema}", *AS_YAML, *paths], capture_output=True, text=True
        )
        for schema, paths in FILES.items()
    ]
    return [done.stdout + done.stderr for done in runs if done.returncode]


if __name__ == "__main__":
    found = failures()
    print(*found, sep="\n", end="")
    sys.exit(bool(found))
