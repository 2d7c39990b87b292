# fair.tcl - TCP Reno of 1999 through one fair queue.
#
# Run:  ns fair.tcl SEED FLOWS KIND BUCKETS LIMIT FROM STOP
#   KIND   SFQ or DRR
#   LIMIT  packets of 1000 bytes
# Must be started in its own folder (it sources profile.tcl).
#
# tcps.tcl has the network and says what is printed. Both hashes grow with the numbers of the nodes, which follow each other:
# flow i, with nodes 2 + 2i and 3 + 2i, has for SFQ k - 1 - k/16 with k = 5 + 4i, so that 16 buckets keep 8 flows apart and 64
# keep 16; for DRR half of that. SFQ's fair share, LIMIT / BUCKETS, must be above 0.

source profile.tcl
lassign $argv seed flows discipline buckets limit from stop

Queue/SFQ set maxqueue_ $limit
Queue/SFQ set buckets_ $buckets
Queue/DRR set buckets_ $buckets
Queue/DRR set mask_ 0
Queue/DRR set quantum_ 1000
Queue/DRR set blimit_ [expr {1000 * $limit}]
source tcps.tcl
