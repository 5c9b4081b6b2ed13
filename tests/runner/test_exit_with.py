"""Processes that end with the one that started them, and signals that end the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kdgraph.cli import main as cli
from kdgraph.runner.locks import is_running, process_identity, shares_process_table

from .conftest import wait_until

ROOT = Path(__file__).parents[2]
CHILD = (
    "import sys, time; from pathlib import Path; from kdgraph.runner.locks import lock,"
    " release_all_locks\nfrom kdgraph.runner.locks import exit_with\nimport json; owner ="
    " json.loads(sys.argv[1])\nexit_with(owner, release_all_locks); exit_with(owner,"
    " release_all_locks)\nwith lock(Path(sys.argv[2]), print):\n    print('held', flush=True);"
    " time.sleep(100)"
)
PARENT = (
    "import json, subprocess, sys; from kdgraph.runner.locks import process_identity\n"
    "child = [sys.executable, '-c', sys.argv[1], json.dumps(process_identity()), sys.argv[2]]\n"
    "between = [sys.executable, '-c', 'import subprocess, sys; subprocess.run(sys.argv[1:])']\n"
    "subprocess.run([*(between if sys.argv[3] == 'grandchild' else []), *child])"
)


@pytest.mark.parametrize("kind", ["child", "grandchild"])
def test_process_ends_and_unlocks_with_its_killed_owner(tmp_path, kind):
    """The pipe that all of them hold is at its end once all have ended."""
    path = tmp_path / "lock"
    command = [sys.executable, "-c", PARENT, CHILD, str(path), kind]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "held\n" and path.exists()
        parent.kill()
        assert parent.communicate(timeout=60)[0] == ""
    assert not path.exists()


def test_only_processes_that_are_no_zombies_are_alive():
    assert shares_process_table(process_identity()) and is_running(process_identity())
    assert not is_running({**process_identity(), "start": "1"})
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        if sys.platform == "linux":
            wait_until(
                lambda: (
                    Path(f"/proc/{ended.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
                )
            )
            assert not is_running({**process_identity(), "pid": ended.pid, "start": None})
    assert not is_running({**process_identity(), "pid": ended.pid})


def test_process_of_another_user_is_alive(as_user):
    code = (
        "import json, sys; from kdgraph.runner.locks import is_running;"
        " print(is_running(json.loads(sys.argv[1])))"
    )
    command = [*as_user(2001), sys.executable, "-c", code, json.dumps(process_identity())]
    assert (
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        == "True\n"
    )


def command_line(body: str, **more: object) -> subprocess.Popen[str]:
    """A process whose command is ``body``, after which it waits to be ended."""
    code = (
        "import signal, sys, time; from kdgraph.cli import main as cli\n"
        "def run_command(arguments):\n"
        f"    {body}\n"
        "    print('there', flush=True); time.sleep(60)\n"
        "cli._run_command = run_command; sys.exit(cli.main([]))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("signum", "code", "line"),
    [
        (signal.SIGTERM, 143, "kdg: terminated by SIGTERM; finished stages are kept\n"),
        (signal.SIGHUP, 129, "kdg: terminated by SIGHUP; finished stages are kept\n"),
        (signal.SIGINT, 130, "kdg: interrupted; finished stages are kept\n"),
    ],
)
def test_a_signal_ends_the_command_in_one_line(signum, code, line):
    with command_line("signal.signal(signal.SIGINT, signal.default_int_handler)") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signum)
        assert (process.communicate(timeout=60)[1], process.returncode) == (line, code)


def test_an_interruption_in_a_destructor_is_not_lost():
    """Python prints what a destructor raises, and goes on."""
    body = "exec('class Lost:\\n def __del__(self): raise KeyboardInterrupt'); locals()['Lost']()"
    with command_line(
        f"signal.signal(signal.SIGINT, signal.default_int_handler); {body}"
    ) as process:
        assert process.communicate(timeout=60)[1] == "kdg: interrupted; finished stages are kept\n"
        assert process.returncode == 130


def test_what_else_a_destructor_raises_is_printed_as_ever():
    body = (
        "exec('class Lost:\\n def __del__(self): raise ValueError(7)'); locals()['Lost']();"
        " sys.exit(3)"
    )
    with command_line(body) as process:
        assert "ValueError: 7" in process.communicate(timeout=60)[1] and process.returncode == 3


def test_signals_belong_to_the_command_line_while_it_runs(monkeypatch):
    handlers = []
    monkeypatch.setattr(
        cli,
        "_run_command",
        lambda arguments: handlers.append([signal.getsignal(number) for number in signals]) or 0,
    )
    signals = (signal.SIGTERM, signal.SIGHUP)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        hook = sys.unraisablehook
        assert cli.main([]) == 0
        assert handlers == [[cli._terminate, signal.SIG_IGN]]
        assert [signal.getsignal(number) for number in signals] == [
            signal.SIG_DFL,
            signal.SIG_IGN,
        ] and sys.unraisablehook is hook
    finally:
        signal.signal(signal.SIGHUP, before)
