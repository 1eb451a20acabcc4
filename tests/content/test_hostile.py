"""Content and hosts files of somebody who means harm: each is refused, in words, and costs neither time nor memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from collie.content.catalogs import load_catalog
from collie.content.document import parse_document, read_document
from collie.content.inventory import load_inventory
from collie.content.prototype import load_point
from collie.content.spaces import load_space
from collie.content.workload import load_workload
from collie.errors import ContentError, InventoryError, Problem, Problems
from collie.inventory.hosts import Inventory, check_ip_address, check_jump

HOSTS = """\
version: 1
hosts:
  a: {address: 10.0.0.1, data_address: 192.0.2.1, device: rxe0}
  b: {address: 10.0.0.2, data_address: 192.0.2.2, device: rxe0}
"""
COUNTER = "{name: x, source: ethtool, unit: packets, kind: perf, component: nic, meaning: m}"
SPACE = Path(__file__).parents[2] / "workloads" / "spaces" / "nsdi22.yaml"


def write(folder: Path, text: str) -> Path:
    path = folder / "file.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "name", ["a; rm -rf /", "$(reboot)", "`reboot`", "-oProxyCommand=reboot", "../../etc/cron.d/x", "a\\nb", "<script>"]
)
@pytest.mark.parametrize("field", ["  a:", "10.0.0.1", "192.0.2.1", "rxe0"])
def test_a_name_that_a_shell_or_a_path_would_take_apart_is_refused(tmp_path: Path, field: str, name: str) -> None:
    with pytest.raises(InventoryError):
        load_inventory(write(tmp_path, HOSTS.replace(field, f'  "{name}":' if field == "  a:" else f'"{name}"', 1)))


@pytest.mark.parametrize("user", ["-oProxyCommand=reboot", "a;b", "$(reboot)", "a b", "a@b", "../a", ""])
def test_a_user_holds_no_option_and_no_command(tmp_path: Path, user: str) -> None:
    def load(name: str) -> Inventory:
        return load_inventory(write(tmp_path, HOSTS.replace("device: rxe0", f'device: rxe0, user: "{name}"', 1)))

    assert load("some.user").hosts[0].user == "some.user"
    with pytest.raises(InventoryError, match="user"):
        load(user)


@pytest.mark.parametrize("jump", ["$(reboot)@gate", "`reboot`@gate", "a;b@gate", "-F/x@gate", "gate:99999", "-gate"])
def test_a_jump_host_holds_no_command(jump: str) -> None:
    with pytest.raises(ValueError, match="is no jump host"):
        check_jump(jump)


@pytest.mark.parametrize("scope", ["eth1; reboot", "$(reboot)", "eth1'", "", "a" * 16])
def test_an_address_names_a_network_device_and_nothing_else(scope: str) -> None:
    assert check_ip_address("fe80::1%eth1.100") == "fe80::1%eth1.100"
    with pytest.raises(ValueError, match="is no IP address"):
        check_ip_address(f"fe80::1%{scope}")


def test_a_key_of_a_user_who_does_not_exist_is_a_file_that_does_not_exist(tmp_path: Path) -> None:
    text = HOSTS.replace("device: rxe0", "device: rxe0, identity_file: ~nobody-of-this-name/key", 1)
    assert load_inventory(write(tmp_path, text)).hosts[0].identity_file == f"{tmp_path}/~nobody-of-this-name/key"


def test_a_file_is_read_up_to_its_bound_and_a_device_not_at_all(tmp_path: Path) -> None:
    long = tmp_path / "long.yaml"
    long.write_bytes(b"#" * ((512 << 10) + 1))
    for load in (read_document, lambda path: load_point(str(path))):
        with pytest.raises(ContentError, match="longer than 512 KiB"):
            load(long)
        with pytest.raises(ContentError, match="it is a device, not a regular file"):
            load(Path("/dev/zero"))


def test_a_path_that_cannot_be_is_a_complaint() -> None:
    with pytest.raises(ContentError, match="cannot be read"):
        read_document(Path("a\0b.yaml"))


@pytest.mark.parametrize("text", [r'a: "\e[2J"', r'"\x9b1m": 1', r'a: "\u202Etxt"', r'a: "\0"'])
def test_text_that_steers_a_terminal_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ContentError, match="steer a terminal") as caught:
        parse_document(text, "file.yaml")
    assert str(caught.value).isprintable()


def test_an_anchor_that_stands_twice_is_refused() -> None:
    with pytest.raises(ContentError, match=r"file\.yaml:2: &a stands twice"):
        parse_document("a: &a 1\nb: &a 2", "file.yaml")


def test_aliases_that_multiply_are_refused_before_they_do() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    with pytest.raises(ContentError, match="is an alias"):
        parse_document("\n".join(rows), "file.yaml")


def test_many_wrong_names_do_not_make_a_message_of_gigabytes(tmp_path: Path) -> None:
    hosts = "".join(
        f"  h{n}: {{address: a{n}, data_address: 10.0.{n >> 8}.{n & 255}, device: d}}\n" for n in range(800)
    )
    pairs = "".join(f"  - [x{n}, y{n}]\n" for n in range(1000))
    with pytest.raises(InventoryError) as caught:
        load_inventory(write(tmp_path, f"version: 1\nhosts:\n{hosts}pairs:\n{pairs}"))
    *displayed, last = str(caught.value).splitlines()
    assert len(displayed) == 50
    assert "and more: the first 50 problems are shown" in last
    assert len(str(caught.value)) < 50_000


def test_a_file_of_many_values_is_refused_before_they_are_built() -> None:
    parse_document("a: [" + "1," * 90_000 + "]", "file.yaml")
    with pytest.raises(ContentError, match="more than 100,000 keys and values"):
        parse_document("a: [" + "1," * 100_000 + "]", "file.yaml")


def test_reading_ends_with_one_problem_more_than_a_message_shows() -> None:
    read = 0

    def found() -> Iterator[Problem]:
        nonlocal read
        for read in range(1, 1000):
            yield Problem("file.yaml", 1000 - read, "is wrong")

    problems = Problems()
    with pytest.raises(ContentError) as caught:
        problems.extend(found())
    assert (read, len(caught.value.problems)) == (51, 51)
    again = InventoryError(caught.value.problems)
    assert str(again) == str(caught.value)
    assert str(again).count("is wrong") == 50
    assert "and more" not in str(ContentError(caught.value.problems[:50]))


def test_a_catalog_stands_for_no_more_counters_than_a_nic_could_have(tmp_path: Path) -> None:
    digits = ", ".join(map(str, range(10)))
    expand = ", ".join(f"{name}: [{digits}]" for name in "abcdefghij")
    bomb = COUNTER.replace("name: x", f'name: "{"".join(f"{{{name}}}" for name in "abcdefghij")}"')
    with pytest.raises(ContentError, match="more than 10000 counters"):
        load_catalog(str(write(tmp_path, f"driver: x\nexpand: {{{expand}}}\ncounters: [{bomb}]\n")))


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(a+)+$", "for ever"),
        ("(a|a)*b", "for ever"),
        (r"(a)\\1", "for ever"),
        (".*.*.*.*x", "for ever"),
        ("(?=a)b", "for ever"),
        ("a{99999999999}", "no regular expression"),
        ("(" * 300 + ")" * 300, "no regular expression|at most"),
    ],
)
def test_a_pattern_that_could_take_for_ever_is_refused(tmp_path: Path, pattern: str, said: str) -> None:
    rule = f'{{pattern: "{pattern}", source: ethtool, reason: r}}'
    with pytest.raises(ContentError, match=said):
        load_catalog(str(write(tmp_path, f"driver: x\ncounters: [{COUNTER}]\nignored: [{rule}]\n")))


def test_a_space_draws_no_list_that_fills_the_memory(tmp_path: Path) -> None:
    text = SPACE.read_text()
    assert "max_length: 6" in text
    with pytest.raises(ContentError, match="at most 4096"):
        load_space(str(write(tmp_path, text.replace("max_length: 6", "max_length: 100000000000"))))


def test_a_hosts_file_names_no_more_than_4096_hosts(tmp_path: Path) -> None:
    def hosts(count: int) -> str:
        each = (f"h{n}: {{address: a{n}, data_address: 10.0.{n >> 8}.{n & 255}, device: d}}" for n in range(count))
        return f"version: 1\nhosts: {{{', '.join(each)}}}\n"

    assert len(load_inventory(write(tmp_path, hosts(4096))).hosts) == 4096
    with pytest.raises(InventoryError, match="4096"):
        load_inventory(write(tmp_path, hosts(4097)))


def test_a_request_vector_has_no_more_than_1024_requests(tmp_path: Path) -> None:
    def messages(count: int) -> str:
        return f"qp_type: RC\nopcode: WRITE\nmessages: [{', '.join(['64'] * count)}]\n"

    assert len(load_workload(write(tmp_path, messages(1024))).messages) == 1024
    with pytest.raises(ContentError, match="a list of 1025; at most 1024"):
        load_workload(write(tmp_path, messages(1025)))


def test_a_tag_builds_no_object(tmp_path: Path) -> None:
    for tag in ("!!python/object/apply:os.mkdir", "!!python/name:os.system", "!!binary", "!own"):
        with pytest.raises(ContentError, match="is not supported"):
            parse_document(f'a: {tag} ["{tmp_path}/made"]', "file.yaml")
    assert not (tmp_path / "made").exists()


def test_levels_are_counted() -> None:
    assert parse_document("a: " + "[" * 19 + "]" * 19, "file.yaml")
    with pytest.raises(ContentError, match="nested more than 20 deep"):
        parse_document("a: " + "[" * 20 + "]" * 20, "file.yaml")


def test_a_point_of_the_prototype_that_nests_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "point"
    path.write_text('{"Traffics": ' + "[" * 100_000)
    with pytest.raises(ContentError, match="nested too deep"):
        load_point(str(path))
