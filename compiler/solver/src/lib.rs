//! The pairwise one-hot integer program: reductions, exact dynamic programming, HiGHS, local search and bounds.
