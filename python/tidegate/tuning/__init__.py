"""Tuning: values of parameters for a stated goal, found on some networks and tried on others.

In: a file with a table `[tune]` (`declared`), which names an experiment, parameters with ranges (`space`),
objectives and limits. Trials are asked of optuna in batches of a fixed size and told in order (`search`);
what each is worth is measured over networks and seeds (`trials`), and what is clearly worse is stopped early.
Runs are made and kept as those of any experiment (`networks`, `runs`). The best of them is chosen by a
stated rule, compared with the defaults on seeds and networks that the search has not seen (`compared`), and
told as text, JSON and one page of HTML (`outcome`, `figures`, `page`).
"""
