"""What a router that is too narrow counted: when a verdict is no chance, and why transfers died."""

import pytest

from runner.instruments.path.narrow import cause, is_certain


def counted(single: tuple[int, int], bulk: tuple[int, int]) -> dict[str, int]:
    """Packets too long, with DF and without."""
    names = ("single_df", "single_no_df", "bulk_df", "bulk_no_df")
    return dict(zip(names, (*single, *bulk), strict=True))


@pytest.mark.parametrize(
    ("single", "bulk", "told"),
    [
        ((134, 0), (0, 0), {"cause": "df"}),
        ((55, 0), (16, 0), {"cause": "df"}),
        ((191, 0), (0, 270), {"cause": "df_of_single"}),
        ((21, 2242), (0, 0), {"cause": "df_of_some"}),
        ((3, 0), (5, 5), {"cause": "df_of_some"}),
        ((0, 9), (0, 0), {}),
    ],
)
def test_the_cause_is_who_has_df(single: tuple[int, int], bulk: tuple[int, int], told: dict[str, str]) -> None:
    assert cause(counted(single, bulk)) == told


@pytest.mark.parametrize(
    ("tries", "passed", "single", "certain"),
    [
        (3, 0, (9, 0), True),  # all have DF
        (3, 0, (9, 1), False),
        (3, 3, (0, 9), True),  # none has
        (3, 3, (1, 9), False),
        (3, 3, (0, 0), True),
        (3, 0, (0, 0), False),  # nothing too long came: something else stopped it
        (3, 1, (9, 0), False),
        (2, 0, (9, 0), False),
    ],
)
def test_three_tries_are_enough_where_it_is_no_chance(
    tries: int, passed: int, single: tuple[int, int], certain: bool
) -> None:
    assert is_certain(tries, passed, counted(single, (0, 0))) is certain
