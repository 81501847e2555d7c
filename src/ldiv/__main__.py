"""python -m ldiv check A.mtx: does the solve of this matrix, and its gradient, work?  python -m
ldiv info: what is here?

Exit codes: 0; 1 where a check fails (singular, a broken promise, a gradient that is off); 2 for
input that is no good; 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np

from ldiv import __version__
from ldiv.cli.matrix_market import Header, load_matrix, load_rhs
from ldiv.cli.report import show_check, show_info
from ldiv.cli.table import waiting
from ldiv.cli.verify import verify
from ldiv.core.arrays.validate import ASSUMPTIONS
from ldiv.core.frameworks.trees import HostArray
from ldiv.engines import registry
from ldiv.errors import NotSymmetricError
from ldiv.linalg.arguments.solve_problem import require_method
from ldiv.matrices.assumptions import assumption
from ldiv.matrices.matrix import Matrix

CODES = "exit codes: 0 all is well; 1 the check failed: singular, a broken promise, or a gradient that is off; 2 bad input"
EXAMPLE = "example: python -m ldiv check stiffness.mtx --assume-a pos"


class Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"bad options: {message.rstrip('.')}. See {self.prog} --help.")


def taken(require: Callable[[str], str]) -> Callable[[str], str]:
    """An option that is checked as the argument of `solve`."""

    def word(given: str) -> str:
        try:
            return require(given)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return word


def parser() -> Parser:
    top = Parser(
        "python -m ldiv",
        description="Linear algebra with derivatives: try it on a matrix of yours.",
        epilog=f"{EXAMPLE}\n{CODES}",
    )
    top.formatter_class = argparse.RawDescriptionHelpFormatter
    top.add_argument("--version", action="version", version=f"ldiv {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="command")
    check = commands.add_parser(
        "check",
        help="solve with a matrix, differentiate, verify the gradient, print one table",
        description="Solves A x = b, takes the gradient of Re c^H x for a random c with respect to all stored entries of A and b, "
        "and compares it along a random direction with a complex step.",
        epilog=CODES,
    )
    check.add_argument(
        "matrix",
        metavar="A.mtx",
        help="a square matrix: Matrix Market, .npz by scipy.sparse.save_npz, or .npy",
    )
    check.add_argument(
        "--rhs",
        metavar="b.mtx",
        help="right-hand sides, dense or sparse; random where it is left out",
    )
    check.add_argument(
        "--assume-a",
        type=taken(assumption),
        metavar="WORD",
        help=f"what you promise about A, in a word of solve: {', '.join(ASSUMPTIONS)} "
        "(default: what the header of a Matrix Market file says, else gen)",
    )
    check.add_argument(
        "--method",
        default="auto",
        type=taken(require_method),
        metavar="NAME",
        help="an engine, as in solve: direct, iterative, "
        f"{', '.join(registry.engines())} (default: %(default)s)",
    )
    commands.add_parser(
        "info",
        help="versions, engines and front ends (present or not, and why), BLAS, threads",
        description="Versions, engines, front ends, BLAS and threads: what a report of a problem needs.",
    )
    return top


def run_check(A: Matrix, header: Header, b: HostArray | None, options: argparse.Namespace) -> int:
    name = Path(options.matrix).name
    promise = options.assume_a or header.promise
    with waiting(f"checking {name} ..."):
        found = verify(A, b, promise, options.method)
    show_check(
        name,
        found,
        promise,
        by_header=options.assume_a is None and promise != "gen",
        of_ones=header.is_pattern,
        drawn=b is None,
    )
    return complain(f"{options.matrix}: {found.failure}", 1) if found.failure else 0


def complain(message: str, code: int) -> int:
    """Print a message as one line on stderr."""
    print("ldiv:", " ".join(message.split()), file=sys.stderr)
    return code


def main(argv: Sequence[str] | None = None) -> int:
    subject = ""
    try:
        options = parser().parse_args(argv)
        if options.command == "info":
            show_info()
            return 0
        A, header = load_matrix(options.matrix)
        b = None if options.rhs is None else load_rhs(options.rhs, A.shape[0])
        ones = " (of ones: the file has a pattern and no numbers)" * header.is_pattern
        subject = f"{options.matrix}{ones}: "  # up to here errors name the file themselves
        return run_check(A, header, b, options)
    except (np.linalg.LinAlgError, NotSymmetricError) as error:
        return complain(f"{subject}{error}", 1)
    except KeyboardInterrupt:
        return complain(f"{subject}interrupted", 130)
    except MemoryError as error:
        return complain(f"{subject}out of memory. {error}", 1)
    except (ValueError, OSError) as error:
        return complain(f"{subject}{error}", 2)


if __name__ == "__main__":
    sys.exit(main())
