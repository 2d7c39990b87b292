"""Evaluation suites: experiments that take any mechanism, and one score card of what it does in them.

In: the files of a suite (`declared`), the files of mechanisms (`mechanisms`). Each mechanism is laid under
each experiment (`pairs`), whose runs are made as those of any experiment; what rows of the card measure is
compared (`card`), and written as text, JSON and one page of HTML (`page`).
"""
