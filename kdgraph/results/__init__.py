"""What finished runs say together.

Follow the data: :mod:`records` finds them and :mod:`filters` chooses, :mod:`complete` says whether
one is whole, and :mod:`origins` what differs behind runs of one name; :mod:`measures` reads what
each number measures, :mod:`names` what each run is called, :mod:`parts` what its model is made of.
Then either every number stands in one table (:mod:`table`, written by :mod:`write`, or :mod:`wide`
on a terminal), or methods stand against each other (:mod:`kdgraph.results.comparison`);
:mod:`numbers` writes values and decides which are the same, :mod:`usual` says which measures are
shown where there is no room for all; :mod:`estimate` is for plans.
"""
