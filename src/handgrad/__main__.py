"""What `handgrad` does on a command line; each command says more with --help.

handgrad prove FILE          prove the formulas of a sheet, and compare its lines of NumPy with them
handgrad progress [FOLDER]   what is solved in a learner's folder
handgrad grade FOLDER        what is solved in a folder of many learners, and what was wrong
"""

import sys
from importlib import import_module

COMMANDS = {
    "prove": "handgrad.page.sheet",
    "progress": "handgrad.course.progress",
    "grade": "handgrad.course.grade",
}


def main(arguments=None):
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if name in COMMANDS:
        return import_module(COMMANDS[name]).main(rest)
    print(__doc__.strip())
    return 0 if name in ("-h", "--help") else 2


if __name__ == "__main__":
    sys.exit(main())
