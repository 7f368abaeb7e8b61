"""Settings in dictionaries and classes, plans, and noise for some parameters: what is sure is taken, the rest asked."""

import pytest

from fastacct.scripts.answers import check
from tests.scripts.test_answers import SCRIPTS

NESTED = SCRIPTS["no_poisson_in_a_dictionary_of_dictionaries"]["script"]
SPREAD = SCRIPTS["a_delta_of_one_in_a_thousand"]["script"]
HIDDEN = SCRIPTS["keywords_of_a_dictionary"]["script"]
OLD = SCRIPTS["a_class_that_keeps_its_old_loader"]["script"]
SOME = SCRIPTS["biases_without_noise"]["script"]


LATE = SCRIPTS["an_engine_that_is_none_at_first"]["script"]
MAIN = "def main():\n"


def test_a_dictionary_in_a_dictionary_is_read():
    (found,) = check(NESTED, records=73_257)
    assert found.asks == {}
    assert found.inputs == {"noise_multiplier": 0.9, "records": 73_257, "batch_size": 256, "epochs": 12, "delta": 1e-6}


@pytest.mark.parametrize(
    "line",
    [
        'CFG["dp"]["noise_multiplier"] = 0.1',
        'inner = CFG["dp"]\n    inner["noise_multiplier"] = 0.1',
        'CFG["dp"].update(noise_multiplier=0.1)',
        "CFG.update(dp={})",
        "change(CFG)",
        'change(CFG["dp"])',
        'for key in CFG: CFG[key]["noise_multiplier"] = 0.1',
        'other = CFG[key]\n    other["noise_multiplier"] = 0.1',
        'del CFG["dp"]["noise_multiplier"]',
    ],
)
def test_a_dictionary_that_may_be_changed_is_asked_about(line):
    (found,) = check(NESTED.replace(MAIN, f"{MAIN}    {line}\n"), records=73_257)
    assert found.epsilon is None
    assert "noise_multiplier" in found.asks


@pytest.mark.parametrize(
    "line",
    ["kwargs['batch_size'] = 8", "kwargs.update(drop_last=True)", "change(kwargs)", "kwargs = get()", "more = kwargs"],
)
def test_arguments_of_a_dictionary_that_may_be_changed_are_asked_about(line):
    (plain,) = check(SPREAD)
    assert plain.asks == {}
    (found,) = check(SPREAD.replace("    train = torch", f"    {line}\n    train = torch"))
    assert found.epsilon is None
    assert "batch_size" in found.asks


@pytest.mark.parametrize(
    ("choice", "is_sure"),
    [
        ('{"num_workers": 2} if cuda else {}', True),
        ('{"num_workers": 2, "drop_last": False} if cuda else {"drop_last": False}', True),
        ('{"drop_last": True} if cuda else {}', False),
        ('{"drop_last": True} if cuda else {"drop_last": False}', False),
        ('{"num_workers": 2} if cuda else get()', False),
        ("{**more}", False),
    ],
)
def test_a_choice_of_arguments_counts_where_both_have_them(choice, is_sure):
    (found,) = check(SPREAD.replace('{"num_workers": 2, "pin_memory": True}', choice))
    assert (found.epsilon is not None) == is_sure


def test_hidden_keywords_are_still_asked_about():
    (found,) = check(HIDDEN.replace("options = {", "options = defaults | {"))
    assert found.sampling == ""
    assert "batches" in found.asks


@pytest.mark.parametrize("more", ["self.make_private()", "copy.copy(self).make_private()", "Twin(self).make_private()"])
def test_a_method_that_is_called_again_is_asked_about(more):
    text = "import copy\nfrom library import Twin\n" + OLD
    found = check(text.replace("engine = self.make_private()", f"engine = self.make_private()\n        {more}"))
    assert all(one.epsilon is None for one in found)


def test_a_field_that_is_none_at_first_counts_where_it_is_set_once():
    (found,) = check(LATE.replace("self.engine = None", "self.engine = get()"))
    assert found.sampling == ""


def test_a_loop_that_changes_some_parameters_only_may_leave_out_the_others():
    old = SOME[SOME.index("                g = summed") : SOME.index("            optimizer.step()")]
    new = """                if "fc" in name:
                    g = summed[name] + torch.normal(0.0, args.sigma * args.clip, size=summed[name].shape)
                    p.grad = g / args.batch_size
"""
    (found,) = check(SOME.replace(old, new))
    assert "noise" not in found.asks
