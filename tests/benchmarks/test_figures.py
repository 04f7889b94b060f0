from importlib.util import find_spec

import pytest

from benchmarks import logs, notice, start, steps, weights
from benchmarks.environments import OWN, REQUIREMENTS, TORCH
from benchmarks.finding import latency_of
from benchmarks.processes import KEEP_PAGES, NOWHERE, WorkerFailed, clean_environment, size_of
from benchmarks.tables import Table
from benchmarks.variants import BASE, VARIANTS


def entry(variant, secs, *, torch="2.13.0", facts=None):
    return {
        "variant": variant, "torch": torch, "mean_secs": secs, "thread_secs": secs, "cpu_secs": 2 * secs,
        "bytes_per_step": 1500.0, "facts": facts or {},
    }  # fmt: skip


def report_of(*rounds, failures=None):
    figures = {name: steps._ratios(rounds, key) for name, key in (
        ("wall", "mean_secs"), ("thread", "thread_secs"), ("cpu", "cpu_secs"))}  # fmt: skip
    return {"workload": "mlp", "device": "cpu", "rounds": rounds, "effort": {"rounds": len(rounds)},
            "failures": failures or {}, **figures}  # fmt: skip


def test_ratios_of_all_rounds_come_together():
    rounds = [
        [entry("bare", 1.0), entry("wandb", 2.0), entry("bare", 1.0)],
        [entry("bare", 2.0), entry("wandb", 5.0), entry("bare", 2.0)],
        [entry("bare", 1.0), entry("wandb", 3.0), entry("bare", 1.0)],
    ]

    ratios = steps._ratios(rounds, "mean_secs")["wandb"]

    assert (ratios["median"], ratios["least"], ratios["greatest"], ratios["count"]) == (2.5, 2.0, 3.0, 3)


def test_steps_of_two_torches_are_not_compared():
    rounds = [[entry("bare", 1.0), entry("smdebug", 2.0, torch="2.12.0"), entry("bare", 1.0)]]

    with pytest.raises(ValueError, match=r"2\.12\.0, 2\.13\.0"):
        steps._ratios(rounds, "mean_secs")


def test_the_table_shows_the_ratio_the_control_the_own_cost_and_the_failure(capsys):
    facts = {"cost": {"capture_secs": 0.5, "train_secs": 10.0}}
    measured = [entry("bare", 1.0), entry("barograph", 1.5, facts=facts), entry("bare", 1.0), entry("bare", 1.0)]

    steps.print_steps(report_of(measured, failures={"wandb": "exit code 1"}))

    printed = capsys.readouterr().out
    assert "bare step 1,000.0 ms" in printed
    assert "barograph       ×1.500 [1.500–1.500]" in printed
    assert "bare (control)  ×1.000" in printed
    assert "the control varies by 0.0%" in printed
    assert "barograph reports its own cost as 5.00% of the training time" in printed
    assert "wandb failed: exit code 1" in printed


def test_the_control_says_what_the_run_resolves(capsys):
    measured = [entry("bare", 1.0), entry("bare", 1.1), entry("bare", 1.0), entry("bare", 0.8), entry("bare", 1.0)]

    steps.print_steps(report_of(measured))

    # 1.1 between two of 1.0, 1.0 between 1.1 and 0.8, 0.8 between two of 1.0
    assert "the control varies by 20.0%" in capsys.readouterr().out


def test_a_point_weighs_the_difference_to_an_empty_log():
    assert logs.bytes_a_point({"bytes": 1_000_000, "points": 10}, {"bytes": 1_002_000, "points": 510}) == 4.0


def test_what_a_start_adds_is_the_difference_within_each_round():
    rounds = [
        {"bare": {"end_secs": 1.0}, "attach": {"end_secs": 1.5}},
        {"bare": {"end_secs": 2.0}, "attach": {"end_secs": 2.25}},
    ]

    assert start.added(rounds, "attach", "end_secs") == [0.5, 0.25]


def test_a_finding_is_late_by_the_time_from_the_steps_end_to_the_lines_arrival():
    lines = [(100.0, "loss is fine"), (101.0, "bad step ended at 100.5"), (101.75, "N101 since step 7")]

    assert latency_of(lines) == {"secs": 1.25, "line": "N101 since step 7"}


def test_a_finding_that_came_before_the_step_ended_is_not_that_steps():
    lines = [(100.0, "N101 non-finite"), (101.0, "bad step ended at 100.5"), (103.5, "N101 non-finite")]

    assert latency_of(lines)["secs"] == 3.0


def test_a_script_that_never_got_there_is_a_failure_with_its_last_words():
    with pytest.raises(WorkerFailed, match="never reached its bad step: no module named torch"):
        latency_of([(1.0, "no module named torch")])


def test_no_finding_is_a_failure_with_the_last_words():
    with pytest.raises(WorkerFailed, match=r"no finding followed: .*all is well"):
        latency_of([(1.0, "bad step ended at 0.5"), (2.0, "all is well")])


def test_a_notice_is_late_by_the_time_to_its_arrival():
    opened = {"type": "org.barograph.finding.opened", "time": "1970-01-01T00:01:41+00:00"}
    events = [(100.0, opened), (101.1, {"type": "org.barograph.action"}), (101.25, opened)]

    assert notice.latency_of(["bad step ended at 100.5"], events) == {"from_opening": 0.25, "from_step": 0.75}


def test_a_notice_that_never_came_is_a_failure_with_the_last_words():
    with pytest.raises(WorkerFailed, match=r"no notice followed: bad step ended at 100\.5"):
        notice.latency_of(["bad step ended at 100.5"], [])
    with pytest.raises(WorkerFailed, match="never reached its bad step: no module named torch"):
        notice.latency_of(["no module named torch"], [])


def test_a_measurement_sees_one_thread_no_network_and_nobodys_home(tmp_path):
    environment = clean_environment(tmp_path, "wandb")

    assert environment["OMP_NUM_THREADS"] == "1"
    assert environment["https_proxy"] == NOWHERE
    assert environment["WANDB_MODE"] == "offline"
    assert environment["HOME"] == str(tmp_path)


def test_memory_is_kept_in_steps_and_left_to_malloc_elsewhere(tmp_path):
    assert steps.Effort().variables == KEEP_PAGES
    assert not set(KEEP_PAGES) & set(clean_environment(tmp_path))


def test_the_size_of_a_directory_is_that_of_all_files_below_it(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(b"12345")
    (tmp_path / "c").write_bytes(b"123")

    assert size_of(tmp_path) == 8


def test_columns_are_as_wide_as_their_widest_cell(capsys):
    table = Table("tool", "ratio")
    table.add("barograph", "×1")
    table.print()

    assert capsys.readouterr().out == "  tool       ratio\n  barograph  ×1\n"


def test_a_row_must_have_a_cell_for_every_heading():
    with pytest.raises(ValueError, match="1 cells under 2 headings"):
        Table("tool", "ratio").add("barograph")


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_names_a_tool_and_an_environment_that_exist(name):
    assert find_spec(f"benchmarks.tools.{VARIANTS[name].tool}") is not None
    assert VARIANTS[name].environment in {OWN, *REQUIREMENTS}


@pytest.mark.parametrize("tool", logs.TOOLS)
def test_every_logger_has_its_module_and_its_environment(tool):
    assert find_spec(f"benchmarks.loggers.{tool}") is not None
    assert tool in {OWN, *REQUIREMENTS}


@pytest.mark.parametrize("name", [name for name, variant in VARIANTS.items() if variant.environment != OWN])
def test_every_environment_that_trains_pins_the_same_torch(name):
    assert TORCH in REQUIREMENTS[VARIANTS[name].environment]


def test_the_weights_are_compared_for_variants_that_exist():
    assert {*weights.COMPARED, BASE} <= set(VARIANTS)
