"""The filter of NVFlare: what is sent is counted first, and kept in a file."""

import pytest

import fastacct as fa

pytest.importorskip("nvflare", reason="NVFlare is not installed")

from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply

from fastacct.training.nvflare import MeterFilter

pytestmark = pytest.mark.filterwarnings("ignore")
RUN = {"noise_multiplier": 4.0, "sample_rate": 1.0, "delta": 1e-5}


def test_what_is_sent_is_counted_and_nothing_beyond_the_budget(tmp_path):
    limit = fa.dpsgd.epsilon(**RUN, steps=3)
    path = tmp_path / "meter.json"
    first = MeterFilter(str(path), **RUN, stop_at=limit)
    for i in (1, 2):
        sent = Shareable()
        assert first.process(sent, FLContext()) is sent
        assert first.meter.epsilon == fa.dpsgd.epsilon(**RUN, steps=i)
    first.process(make_reply(ReturnCode.EXECUTION_EXCEPTION), FLContext())  # nothing of the data
    again = MeterFilter(str(path), **RUN, stop_at=limit)
    again.process(Shareable(), FLContext())
    assert again.meter.steps == 3
    with pytest.raises(fa.BudgetExceededError):
        again.process(Shareable(), FLContext())
    with pytest.raises(fa.BudgetExceededError):
        MeterFilter(str(path), **RUN, stop_at=limit).process(Shareable(), FLContext())


def test_filters_with_one_file_share_one_count(tmp_path):
    limit = fa.dpsgd.epsilon(**RUN, steps=5)
    filters = [MeterFilter(str(tmp_path / "meter.json"), **RUN, stop_at=limit) for _ in range(2)]
    (tmp_path / "link.json").symlink_to(tmp_path / "meter.json")
    filters.append(MeterFilter(str(tmp_path / "link.json"), **RUN, stop_at=limit))
    for i in range(5):
        filters[i % 3].process(Shareable(), FLContext())
        assert filters[i % 3].meter.epsilon == fa.dpsgd.epsilon(**RUN, steps=i + 1)
    for one in filters:
        with pytest.raises(fa.BudgetExceededError):
            one.process(Shareable(), FLContext())


def test_a_result_that_failed_is_sent_without_its_data(tmp_path):
    failed = Shareable({"DXO": {"data": [1.0]}})
    failed.set_return_code(ReturnCode.EXECUTION_RESULT_ERROR)
    mine = MeterFilter(str(tmp_path / "meter.json"), **RUN)
    sent = mine.process(failed, FLContext())
    assert (sent.get_return_code(), "DXO" in sent, mine.meter.steps) == (ReturnCode.EXECUTION_RESULT_ERROR, False, 0)
