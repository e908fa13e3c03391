"""Keys of fields as people read them."""

from __future__ import annotations

import pytest

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.report.text.field_names import spoken


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("sm_clock_mhz", "SM clock"),
        ("temp_c", "temperature"),
        ("power_w", "power"),
        ("nic_speed_gbps", "port speed"),
        ("pcie_tx_bytes_per_s", "PCIe sent"),
        ("event_age_s", "event age"),
        ("minor_number", "minor number"),
        ("pcie_replay_count", "PCIe replay count"),
    ],
)
def test_a_key_is_told_in_words_without_its_unit(key, words):
    assert spoken(key) == words


def test_no_field_of_the_catalogue_is_left_without_a_word():
    assert not [key for key in CATALOGUE if not spoken(key) or "_" in spoken(key)]
