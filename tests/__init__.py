"""Tests, benchmarks and the torture runner.

They start the program many times over, and time it, as it is after an installation: pip compiles what it installs, a
checkout is compiled here. Where `PYTHONDONTWRITEBYTECODE` is set, every start would compile all of it again.
"""

import compileall
from pathlib import Path

compileall.compile_dir(Path(__file__).parents[1] / "termchat", quiet=2)
