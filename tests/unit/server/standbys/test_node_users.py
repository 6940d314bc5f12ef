"""Logins and rights where a node follows, and requests that its socket refuses."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daybook.client.control import ControlError, ask
from daybook.engine.refusals import Refusal
from daybook.journal.data_directory import NODE_SOCKET
from daybook.server.administration.acting import ActAs, LogIn
from daybook.server.administration.request_rows import Answer
from daybook.server.configuration.config import Config, load
from daybook.server.foreign.findings import Foreign
from daybook.server.standbys.node_socket import NodeSocket
from daybook.server.standbys.node_users import NOT_YET, NodeUsers
from daybook.server.users.users import Users

NEAR = "127.0.0.1:5"
FAR = "192.0.2.1:5"
RULES = """
[[security-setting]]
match = "#"
browse = ["readers"]
"""


def config_of(folder: Path, text: str = RULES) -> Config:
    file = folder / "broker.toml"
    file.write_text(f'users-file = "{folder / "users.toml"}"\n{text}')
    return load(file)


def give(folder: Path, login: str, *roles: str) -> Users:
    users = Users.load(folder / "users.toml")
    users.add(login, login, roles)
    return users


def answers(config: Config, *asked: LogIn | ActAs) -> list[Answer | Refusal]:
    async def all_of_them() -> list[Answer | Refusal]:
        users = NodeUsers(config, asyncio.get_running_loop())
        return [await users.answer(each) for each in asked]

    return asyncio.run(all_of_them())


def test_a_login_is_right_or_wrong_and_rights_are_those_of_the_configuration(
    tmp_path: Path,
) -> None:
    give(tmp_path, "rea", "readers")
    give(tmp_path, "nil")
    right, wrong, reader, nobody, stranger, guest = answers(
        config_of(tmp_path), LogIn("rea", "rea", FAR), LogIn("rea", "x", NEAR), ActAs("rea", FAR),
        ActAs("nil", FAR), ActAs("who", FAR), ActAs("guest", NEAR),
    )  # fmt: skip
    assert right == {"user": "rea"}
    assert isinstance(wrong, Refusal)
    assert "passcode of 'rea' is wrong" in wrong.text
    assert reader == {"user": "rea", "sees": True, "manages": False}
    assert nobody == {"user": "nil", "sees": False, "manages": False}
    for each in (stranger, guest):
        assert isinstance(each, Refusal)
        assert "or it is disabled" in each.text


def test_without_users_the_guest_of_this_machine_may_do_all(tmp_path: Path) -> None:
    near, far = answers(config_of(tmp_path, ""), ActAs("guest", NEAR), ActAs("guest", FAR))
    assert near == {"user": "guest", "sees": True, "manages": True}
    assert isinstance(far, Refusal)


def test_nobody_logs_in_before_the_users_of_artemis_are_taken_over(tmp_path: Path) -> None:
    """Without a users file guests could enter."""
    config = msgspec.structs.replace(
        config_of(tmp_path), foreign=Foreign(folder=str(tmp_path), users=1)
    )
    [refused] = answers(config, ActAs("guest", NEAR))
    assert isinstance(refused, Refusal)
    assert refused.text == NOT_YET


def test_a_reload_puts_users_and_rules_in_force(tmp_path: Path) -> None:
    give(tmp_path, "rea", "readers")

    async def scene() -> None:
        users = NodeUsers(config_of(tmp_path), asyncio.get_running_loop())
        give(tmp_path, "rob", "others")
        refused = await users.answer(ActAs("rob", FAR))
        assert isinstance(refused, Refusal)
        users.renew(config_of(tmp_path, RULES.replace("readers", "others")))
        found = [await users.answer(ActAs(each, FAR)) for each in ("rob", "rea")]
        assert [isinstance(each, dict) and each["sees"] for each in found] == [True, False]

    asyncio.run(scene())


class Asked:
    """A node that knows one user."""

    def status(self) -> dict[str, Any]:
        return {"role": "following"}

    async def hand_over(self, to: str, by: str) -> dict[str, Any]:
        raise NotImplementedError

    async def about_user(self, asked: LogIn | ActAs) -> Answer | Refusal:
        return {"user": asked.user if isinstance(asked, ActAs) else asked.login}


def at_a_socket(data: Path, work: Callable[[], Any]) -> Any:
    async def scene() -> Any:
        node = NodeSocket(data, Asked())
        await node.start()
        try:
            return await asyncio.to_thread(work)
        finally:
            await node.stop()

    return asyncio.run(scene())


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"do": "log-in", "login": 1, "passcode": "secret", "peer": ""}, "`str`, got `int`"),
        ({"do": "act-as"}, "missing required field `user`"),
        ({"do": "queues", "passcode": "secret"}, "'log-in' and 'act-as' alone, not 'queues'"),
    ],
)  # fmt: skip
def test_a_wrong_request_is_refused_and_not_repeated(
    tmp_path: Path, asked: dict[str, Any], why: str
) -> None:
    with pytest.raises(ControlError) as caught:
        at_a_socket(tmp_path, lambda: ask(tmp_path, asked, 5.0, name=NODE_SOCKET))
    assert why in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_request_about_a_user_is_answered(tmp_path: Path) -> None:
    asked = {"do": "act-as", "user": "rea", "peer": FAR}
    found = at_a_socket(tmp_path, lambda: ask(tmp_path, asked, 5.0, name=NODE_SOCKET))
    assert found == {"user": "rea"}
