"""Trust in files: owners, modes, folders above, symbolic links."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from onceflow.errors import StorageNotTrusted
from onceflow.values import trust
from tests.conftest import NOBODY

Give = Callable[[Path], None]

ALONE, TEAM = 70001, 70002
"""Groups: one that has this user only, and one that has others as well."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "above" / "folder"
    made.mkdir(parents=True)
    made.parent.chmod(0o755)
    made.chmod(0o700)
    return made


@pytest.fixture(autouse=True)
def _groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system knows of groups."""
    me = pwd.getpwuid(os.geteuid()).pw_name
    members = {ALONE: [me], TEAM: [me, "nobody"]}

    def group(id: int) -> Any:
        return SimpleNamespace(gr_name=f"group{id}", gr_mem=members[id])

    monkeypatch.setattr(grp, "getgrgid", group)
    monkeypatch.setattr(trust, "_private_groups", {})


def of_group(monkeypatch: pytest.MonkeyPatch, path: Path, group: int) -> None:
    """Makes it look as if the path belonged to that group."""
    look, wanted = os.lstat, os.lstat(path)

    def looked(place: Any, **options: Any) -> os.stat_result:
        found = look(place, **options)
        return os.stat_result([*found[:5], group, *found[6:]]) if found.st_ino == wanted.st_ino else found

    monkeypatch.setattr(os, "lstat", looked)


def test_a_folder_of_this_user_is_trusted(folder: Path) -> None:
    assert trust.check_path(folder)


def test_a_folder_that_is_not_there_is_neither_trusted_nor_refused(folder: Path) -> None:
    assert not trust.check_path(folder / "not" / "there")


def test_a_folder_of_another_user_is_refused_and_the_error_says_how_to_mend_it(folder: Path, give_away: Give) -> None:
    give_away(folder)

    with pytest.raises(StorageNotTrusted) as caught:
        trust.check_path(folder)

    assert caught.value.path == str(folder)
    assert f"uid {NOBODY}" in caught.value.reason
    assert "run code as you" in caught.value.reason
    assert f"chown -R {os.geteuid()} {folder}" in caught.value.advice
    assert f"ONCEFLOW_TRUSTED_OWNERS={NOBODY}" in caught.value.advice
    assert "another home directory" in caught.value.advice


@pytest.mark.parametrize("mode", [0o702, 0o777, 0o1777, 0o733])
def test_a_folder_that_all_can_write_to_is_refused_sticky_or_not(folder: Path, mode: int) -> None:
    folder.chmod(mode)

    with pytest.raises(StorageNotTrusted, match="every user can write to it") as caught:
        trust.check_path(folder)

    assert f"chmod go-w {folder}" in caught.value.advice


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o711, 0o500])
def test_the_right_to_read_is_no_danger(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    assert trust.check_path(folder)


def test_a_folder_in_one_of_another_user_is_refused(folder: Path, give_away: Give) -> None:
    give_away(folder.parent)

    with pytest.raises(StorageNotTrusted, match=f"cannot use {folder}: {folder.parent} is not trusted"):
        trust.check_path(folder)


def test_what_is_yet_to_be_made_in_a_folder_of_another_user_is_refused(folder: Path, give_away: Give) -> None:
    give_away(folder)

    with pytest.raises(StorageNotTrusted):
        trust.check_path(folder / "new" / "home")


def test_a_folder_above_that_all_can_write_to_is_refused_unless_it_is_sticky(folder: Path) -> None:
    folder.parent.chmod(0o777)
    with pytest.raises(StorageNotTrusted, match="above is not trusted"):
        trust.check_path(folder)

    folder.parent.chmod(0o1777)
    assert trust.check_path(folder)


def test_what_another_user_put_into_a_sticky_folder_is_refused(folder: Path, give_away: Give) -> None:
    folder.parent.chmod(0o1777)
    give_away(folder)

    with pytest.raises(StorageNotTrusted):
        trust.check_path(folder)


def test_a_sticky_folder_of_another_user_is_refused(folder: Path, give_away: Give) -> None:
    folder.parent.chmod(0o1777)
    give_away(folder.parent)

    with pytest.raises(StorageNotTrusted):
        trust.check_path(folder)


def test_a_group_of_which_this_user_is_the_only_member_may_write(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.chmod(0o770)
    of_group(monkeypatch, folder, ALONE)
    assert trust.check_path(folder)


@pytest.mark.parametrize("above", [False, True])
def test_a_group_with_other_members_may_not_write(folder: Path, monkeypatch: pytest.MonkeyPatch, above: bool) -> None:
    place = folder.parent if above else folder
    place.chmod(0o770)
    of_group(monkeypatch, place, TEAM)
    with pytest.raises(StorageNotTrusted, match=f"group group{TEAM} can write to it"):
        trust.check_path(folder)


def test_a_group_that_is_the_first_one_of_another_user_may_not_write(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.chmod(0o770)
    of_group(monkeypatch, folder, ALONE)
    other = SimpleNamespace(pw_uid=NOBODY, pw_gid=ALONE)
    monkeypatch.setattr(pwd, "getpwall", lambda: [other])
    with pytest.raises(StorageNotTrusted):
        trust.check_path(folder)


def test_with_an_access_control_list_the_bits_of_the_group_stand_for_anybody(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.chmod(0o770)
    of_group(monkeypatch, folder, ALONE)
    monkeypatch.setattr(os, "getxattr", lambda place, name: b"a list")
    with pytest.raises(StorageNotTrusted):
        trust.check_path(folder)


def test_links_are_followed(folder: Path) -> None:
    absolute, relative = folder.parent / "absolute", folder.parent / "relative"
    absolute.symlink_to(folder)
    relative.symlink_to("../above/./absolute")
    (folder / "deep").mkdir()

    assert trust.check_path(relative)
    assert trust.check_path(relative / "deep" / "..")
    assert not trust.check_path(relative / "not there")


def test_a_link_of_another_user_is_refused_wherever_it_leads(folder: Path, give_away: Give) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    give_away(link)

    for path in (link, link / "deeper"):
        with pytest.raises(StorageNotTrusted, match=f"the symbolic link {link} is not trusted"):
            trust.check_path(path)


def test_a_link_to_a_folder_of_another_user_is_refused(folder: Path, give_away: Give) -> None:
    link = folder / "link"
    theirs = folder / "theirs"
    theirs.mkdir()
    give_away(theirs)
    link.symlink_to(theirs)

    for check in (trust.check_path, trust.check_inside):
        with pytest.raises(StorageNotTrusted, match="theirs is not trusted"):
            check(link)


def test_a_link_through_a_folder_that_others_can_write_to_is_refused(folder: Path) -> None:
    shared = folder / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "mine").mkdir(mode=0o700)
    link = folder / "link"
    link.symlink_to(shared / "mine")

    with pytest.raises(StorageNotTrusted, match="shared is not trusted"):
        trust.check_inside(link)


def test_links_in_a_circle_are_an_error_of_the_system(folder: Path) -> None:
    (folder / "one").symlink_to("two")
    (folder / "two").symlink_to("one")
    with pytest.raises(OSError, match="symbolic links"):
        trust.check_path(folder / "one")


def test_what_was_opened_counts_not_what_has_its_name_now(folder: Path, give_away: Give) -> None:
    file = folder / "file"
    file.write_text("theirs")
    give_away(file)
    with file.open() as opened:
        file.rename(folder / "elsewhere")
        file.write_text("mine")
        with pytest.raises(StorageNotTrusted, match=f"cannot use {file}"):
            trust.check_opened(opened.fileno(), file)


def test_a_named_owner_is_trusted_whatever_the_mode(folder: Path, give_away: Give) -> None:
    give_away(folder.parent)
    folder.parent.chmod(0o777)
    assert trust.check_path(folder, [NOBODY])


def test_naming_this_user_allows_modes_but_no_other_owner(folder: Path, give_away: Give) -> None:
    folder.chmod(0o777)
    assert trust.check_path(folder, [os.geteuid()])

    give_away(folder)
    with pytest.raises(StorageNotTrusted):
        trust.check_path(folder, [os.geteuid()])


def test_in_a_folder_of_a_trusted_owner_there_is_one_of_its_own_for_each_user(folder: Path, give_away: Give) -> None:
    give_away(folder)
    own = folder / f"uid-{os.geteuid()}"

    assert trust.own_folder(folder, [NOBODY]) == own
    assert trust.own_folder(own, [NOBODY]) == own
    assert trust.own_folder(folder, []) == folder


def test_a_folder_of_this_user_needs_no_other_inside(folder: Path) -> None:
    assert trust.own_folder(folder, [NOBODY, os.geteuid()]) == folder
    assert trust.own_folder(folder / "not there", [NOBODY]) == folder / "not there"


@pytest.mark.parametrize(
    ("given", "owners"),
    [("", ()), ("1000", (1000,)), ("1000, root 1000", (0, 1000)), ([1000, "root"], (0, 1000)), (7, (7,)), ((), ())],
)
def test_owners_are_named_or_numbered(given: Any, owners: tuple[int, ...]) -> None:
    assert trust.read_owners(given) == owners


@pytest.mark.parametrize("given", ["no-such-user", -1, True, [True], [1.5], 1.5, None, {"root": 0}])
def test_what_is_no_user_is_refused(given: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="user"):
        trust.read_owners(given)
