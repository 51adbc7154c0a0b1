"""Nothing in the package unpickles, evaluates text or imports by a hidden door."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "calibrant"
MODULES = {"_pickle", "cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}
BUILTINS = {"__import__", "compile", "eval", "exec"}


def findings(tree: ast.AST) -> list[str]:
    """Lines that load a pickling module, name an evaluating builtin, or allow pickles in numpy."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                bad = [alias.name for alias in names if alias.name.partition(".")[0] in MODULES]
            case ast.ImportFrom(module=str(module), names=names, level=0):
                bad = [module] if module.partition(".")[0] in MODULES else []
                bad += [alias.name for alias in names if module == "builtins" and alias.name in BUILTINS]
            case ast.Name(id=name) if name in BUILTINS:
                bad = [name]
            case ast.Attribute(value=ast.Name(id="builtins" | "__builtins__"), attr=name) if name in BUILTINS:
                bad = [name]
            case ast.Call(func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"), args=args):
                bad = [a.value for a in args if isinstance(a, ast.Constant) and str(a.value) in MODULES]
            case ast.keyword(arg="allow_pickle", value=ast.Constant(value=value)) if value is not False:
                bad = ["allow_pickle"]
            case _:
                continue
        found += [f"line {getattr(node, 'lineno', '?')}: {name}" for name in bad]
    return found


def test_source_never_runs_data(subtests):
    for path in sorted(SOURCE.rglob("*.py")):
        with subtests.test(str(path.relative_to(SOURCE))):
            assert not findings(ast.parse(path.read_text(encoding="utf-8")))


def test_the_scan_sees_it(subtests):
    for code in [
        "import pickle",
        "import os, pickle as p",
        "from pickle import loads",
        "def f():\n    import joblib.externals",
        "eval('1')",
        "run = exec",
        "compile('1', '', 'eval')",
        "__import__('os')",
        "import builtins\nbuiltins.eval('1')",
        "from builtins import eval as e",
        "import importlib\nimportlib.import_module('pickle')",
        "np.load(f, allow_pickle=True)",
    ]:
        with subtests.test(code=code):
            assert findings(ast.parse(code))


def test_the_scan_lets_it_pass(subtests):
    for code in ["import json", "re.compile('a')", "frame.eval", "np.load(f, allow_pickle=False)"]:
        with subtests.test(code=code):
            assert not findings(ast.parse(code))
