"""Every source file has its test file and the reverse, so that either is found from the other."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent

NO_MODULE = {
    "test_conftest": "the test support",
    "test_encode": "the same",
    "test_forked": "the same",
    "test_import_hygiene": "the package as a whole",
    "test_layout": "the tree of files",
    "test_names": "the names in all modules",
    "test_notebooks": "docs/*.ipynb",
    "test_readme": "README.md",
    "test_wheel": "hatch_build.py",
    "test_wording": "README.md and docs/*.md",
}
"""Tests in tests/ itself that prove something else than one module. Those that play several modules
together are in tests/scenarios.
"""

NO_TEST_FILE = {
    "__init__.py": "says what its package is for",
    "__main__.py": "calls cli.main, whose tests start it",
    "diff/queries.py": "queries, which diff/differences.py runs",
    "decoding.py": "the second half of engine.py, whose tests look at its rows",
    "findings/finding.py": (
        "data, which the tests of the rules and of the collector make and look at"
    ),
    "findings/rule.py": "the same",
    "findings/wire_rules.py": "data, which the tests of findings/wire_checks.py look at",
    "streams/record_codes.py": "names of numbers",
    "zstd.py": "chooses a module, which the tests of capture/compressed.py use",
    "streams/tables.py": "what streams/tracker.py returns, whose tests look at it",
    "streams/late_requests.py": "a part of the kernel of streams/follow.py",
    "output/export/line_programs.py": "the programs of output/export/line_rows.py",
    "output/export/number_text.py": "a part of the kernel of output/export/row_text.py",
    "output/export/span_text.py": "the same",
    "transport/tls/decryption.py": (
        "the second half of transport/tls/stage.py, whose tests show what becomes of a connection"
    ),
    "protocol/utf8.py": "a part of the kernel of output/export/row_text.py",
    "protocol/layouts/*.py": (
        "data, every line of which the vectors of tests/protocol and "
        "tests/scenarios encode and decode"
    ),
}
"""Sources without a test file of their own, as patterns."""


def test_every_module_has_its_test_file() -> None:
    sources = {
        path.relative_to(ROOT / "dcpinspect") for path in (ROOT / "dcpinspect").rglob("*.py")
    }
    lonely = [
        source.as_posix()
        for source in sorted(sources)
        if not any(source.match(pattern) for pattern in NO_TEST_FILE)
        and not (ROOT / "tests" / source).with_name(f"test_{source.name}").exists()
    ]
    assert lonely == [], "write tests/…/test_<module>.py for these modules"


def test_every_test_file_has_its_module() -> None:
    tests = {path.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")}
    orphans = [
        test.as_posix()
        for test in sorted(tests)
        if test.parts[0] not in ("cases", "pages", "scenarios", "peers", "tls")
        and not (len(test.parts) == 1 and test.stem in NO_MODULE)
        and not (ROOT / "dcpinspect" / test).with_name(test.name.removeprefix("test_")).exists()
    ]
    assert orphans == [], "name these after the module they test, or move them to tests/scenarios"
