"""Study files: what is wrong is told in one line with its place and a remedy; what is right is understood."""

import json
from pathlib import Path
from typing import Any

import pytest

from boggn.product import definition
from boggn.product.definition import schema
from boggn.product.lines import line_of
from boggn.product.placeholders import fill, quoted, unknown_in, used_in
from boggn.product.studyfile import load
from commandline import call

GOOD = """\
[study]
direction = "maximize"

[objective]
command = "echo {x}"

[space]
x = { low = 0.0, high = 1.0 }

[budget]
trials = 3
"""


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


BROKEN: dict[str, tuple[str, int | None, str]] = {
    "no objective": (changed('[objective]\ncommand = "echo {x}"\n', ""), None, "`objective` is missing"),
    "no budget": (changed("[budget]\ntrials = 3\n", ""), None, "`budget` is missing"),
    "no space": (changed("[space]\nx = { low = 0.0, high = 1.0 }\n", ""), None, "`space` is missing"),
    "empty space": (changed("x = { low = 0.0, high = 1.0 }\n", ""), 7, "`space` "),
    "no end": (changed("trials = 3\n", ""), 10, "`budget` needs `trials`, `time` or `regret`"),
    "wrong type": (
        changed("trials = 3", 'trials = "three"'),
        11,
        "`budget.trials` must be a whole number, but got 'three'",
    ),
    "negative": (changed("trials = 3", "trials = -3"), 11, "must be 1 or more, but got -3"),
    "misspelt key": (changed("trials = 3", "trails = 3"), 11, "Did you mean `trials`?"),
    "misspelt table": (changed("[budget]", "[bugdet]"), 10, "Did you mean `budget`?"),
    "not TOML": (changed("trials = 3", "trials = three"), 11, "not TOML"),
    "torn": (GOOD + "[result\n", 12, "not TOML"),
    "empty range": (
        changed("low = 0.0, high = 1.0", "low = 1.0, high = 0.0"),
        8,
        "an empty range: low 1.0 is above high 0.0",
    ),
    "log of 0": (changed("high = 1.0", "high = 1.0, log = true"), 8, "its low must be above 0, but is 0.0: take the"),
    "no high": (changed(", high = 1.0", ""), 8, "`space.x` needs `high`"),
    "wrong parameter": (
        changed("{ low = 0.0, high = 1.0 }", '"0 to 1"'),
        8,
        "`space.x` must be { low = …, high = … } or a list",
    ),
    "unknown setting": (changed("high = 1.0", "high = 1.0, scale = 3"), 8, "`space.x` has no setting `scale`"),
    "unknown placeholder": (changed("echo {x}", "echo {x} {y}"), 5, "{y}, which is no parameter: the parameters are x"),
    "reserved name": (changed("x = {", "x = [1, 2]\ntrial = {"), 9, "give the parameter another name"),
    "command not found": (
        changed("echo {x}", "no-such-program {x}"),
        5,
        "'no-such-program' was not found: it must be on",
    ),
    "unclosed quote": (changed('"echo {x}"', "'''echo \"{x}'''"), 5, "cannot be split into words"),
    "command and function": (changed('echo {x}"', 'echo {x}"\nfunction = "a:b"'), 4, "either `command` or `function`"),
    "unknown module": (
        changed('command = "echo {x}"', 'function = "no_module:f"'),
        5,
        "'no_module' was found neither in",
    ),
    "bad function": (changed('command = "echo {x}"', 'function = "train"'), 5, "`objective.function` "),
    "direction": (changed("maximize", "max"), 2, "must be 'minimize' or 'maximize', but got 'max'"),
    "two directions": (
        changed('direction = "maximize"', 'direction = "maximize"\ndirections = ["minimize", "minimize"]'),
        3,
        "leave one",
    ),
    "two objectives": (
        changed('direction = "maximize"', 'directions = ["minimize", "minimize"]'),
        2,
        "this study has 2. Use optuna.samplers.NSGAIISampler or GPSampler",
    ),
    "seed": (GOOD + "[sampler]\nseed = 2\n", 13, "`seed` stands in [study]"),
    "storage": (changed("[objective]", "[objective]\n[study.x]\n"), 5, "`study.x` is not a key"),
    "duration": (GOOD + 'time = "2 hours or so"\n', 12, "such as '90s', '10m', '2h'"),
    "pattern": (GOOD + '[result]\nread = "regex"\npattern = "("\n', 14, "a regular expression: missing )"),
    "no pattern": (GOOD + '[result]\nread = "regex"\n', 13, "`result.pattern` is needed"),
    "groups": (GOOD + '[result]\nread = "regex"\npattern = "x"\n', 14, "0 groups, but needs one per objective: 1"),
    "sampler option": (GOOD + "[sampler]\ngamma = 2\n", 13, "`gamma` must be"),
    "no such option": (GOOD + "[sampler]\ngama = 2\n", 13, "'gama'; did you mean 'gamma'?"),
    "direction nearly": (changed("maximize", "maximise"), 2, "but got 'maximise'. Did you mean 'maximize'?"),
    "a pipe": (changed("echo {x}", "echo {x} | cat"), 5, "has '|', which needs a shell: set `objective.shell = true`"),
    "a variable": (changed("echo {x}", "echo $BOGGN_PARAM_x"), 5, "'$BOGGN_PARAM_x', which needs a shell"),
    "no command": (changed('"echo {x}"', "[]"), 5, "must have 1 or more in it, but got []"),
    "a key twice": (changed("trials = 3", "trials = 3\ntrials = 4"), 12, "A key may stand there once"),
    "a name of no letters": (changed("x = {", '" " = [1, 2]\nx = {'), 8, "printable, and not empty"),
    "in memory": (changed("[study]", "[study]\nstorage = 'sqlite:///:memory:'"), 2, "is lost with each process"),
    "sampler": (GOOD + '[sampler]\nname = "cmaes"\n', 13, "`sampler.name` must be 'boggn', 'tpe'"),
    "pruner option": (GOOD + '[pruner]\nname = "median"\nwarm = 3\n', 14, "'warm'"),
    "env": (
        GOOD.replace("[space]", "env = { A = 3 }\n[space]"),
        7,
        "`objective.env.A` must be a text, but got 3",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_study_file_is_told_in_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text, line, said = BROKEN[name]
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(text, encoding="utf-8")
    assert call("run", "study.toml") == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert told.err.startswith(f"boggn: study.toml:{line}: " if line else "boggn: study.toml: ")
    assert said in told.err
    assert "Traceback" not in told.err
    assert list(tmp_path.iterdir()) == [tmp_path / "study.toml"]


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for name, said in (("none.toml", "No such file"), ("binary.toml", "it is not a text"), (".", "Is a directory")):
        assert call("run", tmp_path / name) == 2
        assert said in capsys.readouterr().err


def test_debug_shows_where(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No such file"):
        call("--debug", "run", tmp_path / "none.toml")


def test_overrides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "study.toml"
    path.write_text(GOOD, encoding="utf-8")
    plan = load(path, ["budget.trials=7", "study.direction=minimize", "objective.env.A='b'", "space.y=[1, 2]"])
    assert plan.file.budget.trials == 7
    assert plan.directions == ["minimize"]
    assert plan.file.objective.env == {"A": "b"}
    assert list(plan.space) == ["x", "y"]
    for wrong, said in (
        ("budget", "key=value"),
        ("budget.trials.x=1", "is a value"),
        ("budget.trials=no", "whole number"),
    ):
        assert call("run", path, "--set", wrong) == 2
        assert said in capsys.readouterr().err


def test_a_dry_run_shows_the_plan_and_makes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "study.toml"
    path.write_text(GOOD, encoding="utf-8")
    assert call("run", path, "--dry-run", "--workers", "3") == 0
    shown = capsys.readouterr().out
    for part in ("to maximize", "echo 0.0", "3 trials", "workers   3", "study.journal", "0 to 1"):
        assert part in shown
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1d 12h", 129600), ("1.5h", 5400), ("2h30m", 9000)]
)
def test_durations(text: str, seconds: float, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(GOOD, encoding="utf-8")
    assert load(path, [f"budget.time='{text}'"]).file.budget.time == seconds
    assert load(path, [f"budget.time={seconds}"]).file.budget.time == seconds


def test_the_shipped_schema_is_that_of_the_definition() -> None:
    shipped = Path(definition.__file__).with_name("study.schema.json")
    assert json.loads(shipped.read_text(encoding="utf-8")) == schema()


def test_placeholders() -> None:
    values: dict[str, Any] = {"x": 1e-5, "k": "a b", "on": True}
    assert fill("f {x} {k} {on} {{x}} { x } {} {1}", values) == "f 1e-05 a b true {x} { x } {} {1}"
    assert fill("f {k}", values, quoted) == "f 'a b'"
    assert fill("{a/b} {model.lr} {{other}}", {"a/b": 1, "model.lr": 2}) == "1 2 {other}"
    assert used_in("{x} {{y}} {a.b} {y} { z }", ["x", "y", "a.b", "z"]) == {"x", "a.b", "y"}
    assert unknown_in("{x} {{y}} {z-1} {m.lr} { w } ${HOME}", ["x"]) == ["z-1", "m.lr"]


def test_lines_of_keys() -> None:
    text = 'a = 1\n[b]\nc.d = 2\ntext = """\nx = 3\n"""\ne = { f = 1 }\n[b.g]  # no\n"h i" = 4\n'
    wanted = {("a",): 1, ("b",): 2, ("b", "c", "d"): 3, ("b", "e", "f"): 7, ("b", "g", "h i"): 9, ("b", "x"): 2}
    for key, line in wanted.items():
        assert line_of(text, key) == line
    assert line_of(text, ("z",)) is None
