"""The table of types is that of the specification."""

from daybook.engine.messages.amqp.constructors import (
    BY_NAME,
    CONSTRUCTORS,
    NAME_OF,
    TYPES,
    kind_of,
    width_of,
)

SPECIFICATION = """
null 40 fixed 0
boolean 41 fixed 0
boolean 42 fixed 0
boolean 56 fixed 1
ubyte 50 fixed 1
ushort 60 fixed 2
uint 43 fixed 0
uint 52 fixed 1
uint 70 fixed 4
ulong 44 fixed 0
ulong 53 fixed 1
ulong 80 fixed 8
byte 51 fixed 1
short 61 fixed 2
int 54 fixed 1
int 71 fixed 4
long 55 fixed 1
long 81 fixed 8
float 72 fixed 4
double 82 fixed 8
decimal32 74 fixed 4
decimal64 84 fixed 8
decimal128 94 fixed 16
char 73 fixed 4
timestamp 83 fixed 8
uuid 98 fixed 16
binary a0 variable 1
binary b0 variable 4
string a1 variable 1
string b1 variable 4
symbol a3 variable 1
symbol b3 variable 4
list 45 fixed 0
list c0 compound 1
list d0 compound 4
map c1 compound 1
map d1 compound 4
array e0 array 1
array f0 array 4
"""
"""Part 1, section 1.6: type, constructor, kind, and bytes of the value or of its size."""


def test_the_table_has_every_constructor_with_its_width() -> None:
    ours = [
        f"{row.name} {each.code:02x} {kind_of(each.code)} {width_of(each.code)}"
        for row in TYPES
        for each in row.constructors
    ]
    assert ours == SPECIFICATION.split("\n")[1:-1]


def test_no_code_is_there_twice() -> None:
    assert len(CONSTRUCTORS) == len(NAME_OF) == sum(len(row.constructors) for row in TYPES) == 39
    assert set(BY_NAME) == set(NAME_OF.values())


def test_codes_below_0x40_have_no_width() -> None:
    assert {width_of(code) for code in range(0x40)} == {-1}
