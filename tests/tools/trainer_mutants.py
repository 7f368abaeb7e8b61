"""Rules of check-loop and of callbacks, and the test that must notice when one is taken out.

Rows of mutants.py, which says what they are, for the rooms scripts and training; older ones are in outer_mutants.py.
"""

# fmt: off
MUTANTS = (
    # file in fastacct/, text, text without the rule, test: "verbs/jit test_a" is in tests/verbs/test_jit.py, begins so
    ("scripts/beside.py", "        if by is not None and not carries(by):", "        if False:",
     "scripts/moved test_an_update_without"),
    ("scripts/beside.py", "    if not is_used:", "    if False:", "scripts/moved test_an_update_without"),
    ("scripts/beside.py", '    is_ended = "figure" in kinds and (', "    is_ended = False and (",
     "scripts/leaks test_what_tells and chosen_next"),
    ("scripts/copies.py", 'is_joined = last_name(getattr(node, "func", node)) in DATA_SETS', "is_joined = False",
     "scripts/moved test_parts_of"),
    ("scripts/trainers.py", "        loop.own = []  # what", "        pass  # what",
     "scripts/trainers test_a_trainer_with"),
    ("scripts/loops.py", "            if early is not None:  # after", "            if False:  # after",
     "scripts/trainers test_a_training_that_ends"),
    ("scripts/tables.py", "    if len(made) != 1 or not is_plain or changed:", "    if len(made) != 1 or not is_plain:",
     "scripts/trainers test_arguments_that"),
    ("scripts/understood.py", "        if _PERSONS.search(line):", "        if False:",
     "scripts/understood test_whether_a_person"),
    ("scripts/answers.py", "and not loop.script.early else None", "else None",
     "scripts/trainers test_a_training_that_ends"),
    ("training/kept.py", "begun = max(known, (units, steps))", "begun = units, steps",
     "training/kept test_a_state_that_was_loaded"),
    ("training/kept.py", "        meter._units += begun[0] - known[0]\n", "", "training/kept test_passes_of_two"),
    ("training/kept.py", "    with locked(real):\n", "    if True:\n", "training/kept test_steps_of_processes"),
    ("training/kept.py", "        meter._met[name] = begun\n", "", "training/kept test_a_budget_is"),
    ("training/kept.py", 'meter._met.get(name, meter._met[""])', '(meter._units, meter.steps)',
     "training/kept test_what_a_meter_counted"),
    ("training/seeds.py", "(is_counted and mark in self.marks) or ", "", "training/seeds test_a_loop_that"),
    ("training/seeds.py", " or (is_after and mark in _HERE)", "", "training/seeds test_another_meter"),
    ("training/seeds.py", "        refuse_known(", "        len(", "training/seeds test_seeds_that"),
    ("training/meter.py", ' | ({"seeds": sorted(self._seeds.marks)} if self._seeds.marks else {})', "",
     "training/seeds test_a_loop_that"),
    ("training/meter.py", 'if self._run.get("bins") != "persistent":', "if True:",
     "training/seeds test_the_same_groups"),
    ("training/fits.py", "        meter._draws_from(", "        (lambda *given: None)(",
     "training/fits test_a_seed_draws"),
    ("training/fits.py", "        for _ in given[-1]:\n            raise more\n", "",
     "training/fits test_a_step_that_is_told"),
    ("training/fits.py", "        if meter._in_pass != length:", "        if False:",
     "training/fits test_a_step_that_is_told"),
    ("training/rounds.py", 'sorted({"aggregate_train", *names} - {*_HARMLESS})', '("aggregate_train",)',
     "training/rounds test_noise_that_is_not"),
    ("training/rounds.py", "    drawn.set_bit_generator(np.random.PCG64DXSM())\n", "",
     "training/rounds test_noise_of_the_global"),
    ("loaders/seen.py", "UnknownLoaderError if is_unknown or not why else ValueError", "UnknownLoaderError",
     "training/given test_keywords_stand_for_no"),
)
# fmt: on
