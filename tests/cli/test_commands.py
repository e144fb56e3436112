"""What each command does to a real service, and what its caller sees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Corral, Running

HEAVY = (
    "boto3",
    "botocore",
    "google",
    "azure",
    "obstore",
    "fastapi",
    "sqlalchemy",
    "httpx",
    "rich",
    "sandbox",
)


def _spec(tmp_path: Path, **fields: object) -> str:
    import json

    file = tmp_path / "job.yaml"
    file.write_text(json.dumps({"run": "true", "resources": {"gpu": "H100:8"}, **fields}))
    return str(file)


def test_help_imports_no_cloud_sdk_and_nothing_heavy() -> None:
    script = (
        "import sys\nfrom service.cli.main import main\ncode = main(['--help'])\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] 0"


def test_a_read_imports_no_cloud_sdk(service: Running) -> None:
    script = (
        "import sys\nfrom service.cli.main import main\ncode = main(['ps'])\n"
        "print([name for name in ('boto3', 'google', 'azure', 'sandbox') if name in sys.modules], code)"
    )
    environment = {**os.environ, "CORRAL_URL": service.url, "CORRAL_TOKEN": service.token}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.splitlines()[-1] == "[] 0"


@pytest.mark.parametrize("command", ["serve", "run", "logs", "config check", "token create", "db backup"])
def test_every_command_has_help(bare: Corral, command: str) -> None:
    done = bare(*command.split(), "--help")
    assert done.code == 0
    assert f"Usage: corral {command}" in done.out


def test_without_a_command_the_commands_are_shown(bare: Corral) -> None:
    done = bare()
    assert done.code == 2
    assert "explain" in done.out


def test_the_version_is_one_line(bare: Corral) -> None:
    assert bare("--version").out == "corral 0.1.0\n"


@pytest.mark.parametrize(
    "line", ["bogus", "ps --bogus", "run", "run --gpus", "run nowhere.yaml", "ps --state done", "events -f"]
)
def test_a_wrong_command_line_is_one_line_and_code_2(corral: Corral, line: str) -> None:
    done = corral(*line.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("corral: ")
    assert done.err.count("\n") == 1


def test_a_service_that_is_not_there_is_code_3(bare: Corral) -> None:
    done = bare("ps", "--url", "http://127.0.0.1:9")
    assert done.code == 3
    assert done.err.startswith("corral: http://127.0.0.1:9 is not reachable")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("token", [[], ["--token", "corral_wrong"]])
def test_no_token_or_a_wrong_one_is_code_5(bare: Corral, service: Running, token: list[str]) -> None:
    done = bare("ps", "--url", service.url, *token)
    assert done.code == 5
    assert done.err.endswith("log in with `corral login`\n")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"resources": {"gpu": "H999:8"}}, "resources.gpu: "),
        ({"resources": {"nodes": -1}}, "resources.nodes: "),
        ({"name": "two\nlines"}, "name: "),
        ({"ports": 5}, "ports: is not supported yet"),
        ({"checkpoint": {"path": "/c"}}, "checkpoint.to"),
    ],
)
def test_a_wrong_spec_is_code_4_with_the_field_and_creates_nothing(
    corral: Corral, tmp_path: Path, fields: dict[str, object], text: str
) -> None:
    before = corral("ps", "-a", "--json").json
    done = corral("run", _spec(tmp_path, **fields))
    assert done.code == 4
    assert text in done.err
    assert done.err.count("\n") == 1
    assert corral("ps", "-a", "--json").json == before


def test_a_job_that_does_not_exist_is_code_4(corral: Corral) -> None:
    for command in ("explain", "cancel", "logs", "events"):
        done = corral(command, "job-0000000000000000")
        assert (done.code, done.err) == (4, "corral: no such job\n")


def test_a_detached_job_prints_its_id_waits_for_offers_and_can_be_cancelled(
    corral: Corral, tmp_path: Path
) -> None:
    done = corral("run", _spec(tmp_path, name="waits"), "--detach")
    assert done.code == 0
    job = done.out.strip()
    assert job in corral("ps").out
    explained = corral("explain", job)
    assert "no offers are known yet" in explained.out
    assert corral("cancel", job).out == f"{job}: cancelled\n"
    assert job not in corral("ps").out
    assert job in corral("ps", "-a").out
    kinds = [event["kind"] for event in corral("events", job, "--json").json]
    assert kinds[0] == "job_submitted"
    assert kinds[-1] == "job_cancelled"
    followed = corral("events", job, "--follow", "--json").out.splitlines()
    assert [json.loads(line)["kind"] for line in followed] == kinds
    assert corral("logs", job).out == ""


def test_a_job_can_be_called_by_its_name_where_only_one_can_be_meant(corral: Corral, tmp_path: Path) -> None:
    first = corral("run", _spec(tmp_path, name="twins"), "--detach").out.strip()
    assert corral("explain", "twins", "--json").code == 0
    second = corral("run", _spec(tmp_path, name="twins"), "--detach").out.strip()
    refused = corral("cancel", "twins")
    assert refused.code == 2
    assert first in refused.err
    assert second in refused.err
    corral("cancel", first)
    assert second in corral("cancel", "twins").out


def test_a_followed_job_that_is_cancelled_ends_with_code_1(
    corral: Corral, service: Running, tmp_path: Path
) -> None:
    from service.cli.client import Client
    from service.cli.connection import Connection

    name = f"followed-{os.getpid()}"

    def cancel() -> None:
        with Client(Connection(service.url, service.token)) as client:
            for _ in range(500):
                found = client.get("/v1/jobs", {"name": name})["items"]
                if found:
                    client.post(f"/v1/jobs/{found[0]['id']}:cancel")
                    return
                time.sleep(0.01)

    other = threading.Thread(target=cancel)
    other.start()
    done = corral("run", "--name", name, "--gpus", "L4", "--", "sleep", "1")
    other.join()
    assert done.code == 1
    assert "cancelled" in done.err


def test_a_plan_creates_nothing_and_says_what_it_lacks(corral: Corral, tmp_path: Path) -> None:
    done = corral("plan", _spec(tmp_path, workdir="."))
    assert done.code == 0
    assert done.out.startswith("no offers are known: ")
    assert "max_duration is not set" in done.err
    assert corral("plan", "--gpus", "H100:8", "--json", "--", "true").json["offers"] == []


def test_a_workdir_is_uploaded_once_and_named_by_its_hash(corral: Corral, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").write_text(f"print({os.getpid()})")
    command = ("run", "-d", "--json", "--gpus", "L4", "--workdir", str(source), "--", "python", "train.py")
    first, second = corral(*command).json, corral(*command).json
    assert len(first["spec"]["workdir"]) == 64
    assert second["spec"]["workdir"] == first["spec"]["workdir"]
    for job in (first, second):
        corral("cancel", job["id"])


def test_files_of_a_spec_are_uploaded_from_beside_it(corral: Corral, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    job = corral("run", "-d", "--json", _spec(tmp_path, files=["config.json"])).json
    assert [file["path"] for file in job["spec"]["files"]] == ["config.json"]
    corral("cancel", job["id"])


def test_offers_and_instances_say_that_there_are_none(corral: Corral) -> None:
    assert corral("offers").out.startswith("no offers")
    assert corral("instances").out.startswith("no live instances")
    assert corral("offers", "--json").json == []
    assert corral("instances", "--all", "--json").json == []


def test_a_secret_goes_in_and_never_comes_out(corral: Corral, tmp_path: Path) -> None:
    assert corral("secret", "set", "HF_TOKEN", stdin="hidden-value\n").out == "default/HF_TOKEN: set\n"
    listed = corral("secret", "ls")
    assert "HF_TOKEN" in listed.out
    assert "hidden-value" not in corral("secret", "ls", "--json").out + listed.out
    assert corral("secret", "rm", "HF_TOKEN").code == 0
    assert corral("secret", "rm", "HF_TOKEN").code == 4
    assert corral("secret", "set", "EMPTY", stdin="\n").code == 2


def test_another_projects_job_does_not_exist_for_a_projects_token(
    corral: Corral, bare: Corral, service: Running
) -> None:
    name = f"team-{os.getpid()}"
    assert corral("project", "create", name).code == 0
    assert name in corral("project", "ls").out
    made = corral("token", "create", "robot", "--project", name, "--role", "member", "--json").json
    job = corral("run", "-d", "--gpus", "L4", "--", "true").out.strip()
    assert corral("ps", "--token", made["token"], "--json").json == []
    assert corral("cancel", job, "--token", made["token"]).err == "corral: no such job\n"
    assert corral("token", "create", "x", "--token", made["token"]).code == 5
    corral("cancel", job)
    assert corral("token", "revoke", made["id"]).code == 0
    assert corral("ps", "--token", made["token"]).code == 5
    assert made["id"] not in corral("token", "ls").out
    assert made["id"] in corral("token", "ls", "--revoked").out


def test_login_keeps_what_works_and_nothing_else(bare: Corral, service: Running, tmp_path: Path) -> None:
    assert bare("login", "--url", service.url, stdin="corral_wrong\n").code == 5
    kept = tmp_path / "home" / ".config" / "corral" / "credentials"
    assert not kept.exists()
    done = bare("login", "--url", service.url, stdin=f"{service.token}\n")
    assert done.code == 0
    assert service.token not in done.out + done.err
    assert kept.stat().st_mode & 0o777 == 0o600
    assert bare("ps").code == 0


def test_init_is_safe_to_repeat_and_the_database_can_be_checked_and_copied(
    bare: Corral, tmp_path: Path
) -> None:
    config = tmp_path / "corral.yaml"
    config.write_text(f"data_dir: {tmp_path / 'data'}\nlisten: {{port: 1}}\n")
    line = ("--config", str(config))
    first = bare("init", *line)
    assert "first admin token, shown only now: corral_" in first.out
    assert (tmp_path / "home/.config/corral/credentials").exists()
    again = bare("init", *line, "--json").json
    assert again["token"] is None
    assert bare("db", "check", *line).code == 0
    copy = tmp_path / "copy.db"
    assert bare("db", "backup", str(copy), *line).code == 0
    assert copy.stat().st_mode & 0o777 == 0o600
    refused = bare("db", "backup", str(copy), *line)
    assert (refused.code, refused.err) == (1, f"corral: db: {copy} exists already\n")
    assert bare("db", "upgrade", *line).code == 0


def test_a_settings_file_with_a_wrong_key_is_code_2_with_its_line(bare: Corral, tmp_path: Path) -> None:
    config = tmp_path / "corral.yaml"
    config.write_text("listen:\n  prot: 1\n")
    for line in (("config", "check", str(config)), ("init", "--config", str(config))):
        done = bare(*line)
        assert done.code == 2
        assert f"{config}:2: unknown key listen.prot; did you mean port?" in done.err
    config.write_text("listen: {port: 1}\n")
    assert bare("config", "check", str(config)).out == f"{config}: fine\n"


def test_settings_are_shown_without_their_secrets(
    bare: Corral, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_DATABASE_URL", "postgresql://corral:hidden@db/corral")
    monkeypatch.setenv("CORRAL_STORAGE_OPTIONS", "{secret_access_key: hidden, token: 'env:TOKEN'}")
    done = bare("config", "show")
    assert done.code == 0
    assert "hidden" not in done.out
    assert "postgresql://corral:***@db/corral" in done.out
    assert "env:TOKEN" in done.out


def test_check_without_accounts_says_so(
    bare: Corral, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert bare("check").out.startswith("no accounts in the settings")


def test_the_service_says_in_one_line_why_it_cannot_start(service: Running) -> None:
    command = [sys.executable, "-m", "service.cli", "serve", "--config", str(service.folder / "corral.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "another corral serve" in done.stderr
    assert done.stderr.startswith("corral: ")
    assert done.stderr.count("\n") == 1
