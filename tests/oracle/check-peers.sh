#!/usr/bin/env bash
# Compares with ns-2 itself: installs it, makes the frozen outputs anew, and demands that they are the same as those in the
# repository, against which the ordinary tests compare Tidegate; then runs those tests. Queues that depend on random numbers,
# or on the phases of many TCPs, are compared by their statistics, in the same run, with the package of the checkout
# (TIDEGATE_PYTHON names another interpreter). What ns-3 gave is frozen too; where NS3_PROGRAM names tests/oracle/ns3/controls.cc,
# compiled as the page beside it says, ns-3 itself is run again and must give the same.
set -euo pipefail
cd "$(dirname "$0")/../.."
bash tests/oracle/install-ns2.sh
python3 tests/oracle/ns2/make_frozen.py --check
python3 tests/oracle/ns2/make_frozen_queues.py --check
python3 tests/oracle/python/freeze_verdicts.py --check
python3 tests/oracle/python/freeze_codel.py --check
python3 tests/oracle/python/freeze_fq_codel.py --check
python3 tests/oracle/python/freeze_fq_pie.py --check
python3 tests/oracle/python/freeze_fq.py --check
python3 tests/oracle/python/freeze_cobalt.py --check
python3 tests/oracle/python/freeze_cake.py --check
python3 tests/oracle/python/freeze_managers.py --check
python3 tests/oracle/python/freeze_dualpi2.py --check
python3 tests/oracle/python/freeze_pi2.py --check
python3 tests/oracle/python/freeze_scream.py --check
python3 tests/oracle/python/freeze_autorate.py --check
python3 tests/oracle/python/tcp/freeze_subtcp.py --check
python3 tests/oracle/python/tcp/freeze_controls.py --check
python3 tests/oracle/python/backpressure/freeze_backpressure.py --check
cargo test --release -p tidegate-mechanism --test suite -- ns2_ reference_
if [ -n "${NS3_PROGRAM:-}" ]; then
    python3 tests/oracle/ns3/make_frozen.py --check "$NS3_PROGRAM"
fi
cargo test --release -p tidegate-engine --test suite -- ns2_throughput ns3_
"${TIDEGATE_PYTHON:-.venv/bin/python}" tests/oracle/ns2/check_statistics.py
