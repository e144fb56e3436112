"""What `plan` and `explain` leave out, and what they never do."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.cli.jobs import of_interest
from service.cli.show import more
from service.cli.uploads import without_uploads
from tests.cli.conftest import Corral

OTHER_GPU = {"instance_type": "m7i.large", "reason": "wrong_gpu"}
TOO_SMALL = {"instance_type": "p5.48xlarge", "reason": "too_small"}
TO_BE_TRIED = {"instance_type": "p5.48xlarge", "reason": None}


def test_offers_of_other_gpus_are_listed_only_where_there_are_no_others() -> None:
    assert of_interest([TO_BE_TRIED, OTHER_GPU, TOO_SMALL]) == [TO_BE_TRIED, TOO_SMALL]
    assert of_interest([OTHER_GPU]) == [OTHER_GPU]


def test_a_list_that_was_cut_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    more(0, "--limit")
    more(3, "--limit")
    more(4)
    assert capsys.readouterr().out == "and 3 more; --limit shows them\nand 4 more\n"


def test_a_plan_refuses_the_same_mounts_as_a_run(corral: Corral, tmp_path: Path) -> None:
    file = tmp_path / "mounts.yaml"
    file.write_text("run: 'true'\nfile_mounts: {/data: 's3://bucket/data', notes.txt: notes.txt}\n")
    (tmp_path / "notes.txt").write_text("hello")
    told = {command: corral(command, str(file)) for command in ("plan", "run")}
    assert told["plan"] == told["run"]
    assert told["plan"].code == 4
    assert "mounting a bucket" in told["plan"].err


def test_a_plan_does_not_look_at_files_of_this_machine() -> None:
    spec = {"run": "true", "workdir": ".", "files": ["a"], "file_mounts": {"b": "/nowhere"}}
    assert without_uploads(spec) == {"run": "true", "file_mounts": {}}


def test_a_job_that_is_over_is_explained_in_one_line(corral: Corral) -> None:
    job = corral("run", "--detach", "--gpus", "H100:8", "--", "true").out.strip()
    corral("cancel", job)
    assert corral("explain", job).out == "cancelled: cancelled by a user\n"
