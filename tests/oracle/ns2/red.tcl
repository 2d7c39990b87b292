# red.tcl - TCP Reno of 1999 through one RED queue.
#
# Run:  ns red.tcl SEED FLOWS ECN ADAPTIVE LIMIT MIN MAX MAX_P WEIGHT FROM STOP
#   ADAPTIVE  0, or 1 for Feng's Adaptive RED (alpha 3, beta 2)
# Must be started in its own folder (it sources profile.tcl).
#
# tcps.tcl has the network and says what is printed.

source profile.tcl
lassign $argv seed flows ecn adaptive limit min max max_p weight from stop

Queue/RED set bytes_ false
Queue/RED set queue_in_bytes_ false
Queue/RED set gentle_ false
Queue/RED set cautious_ 0
Queue/RED set wait_ true
Queue/RED set drop_tail_ true
Queue/RED set use_mark_p_ false       ;# 2.35: true, drops above mark_p_ 0.1 although setbit_
Queue/RED set setbit_ $ecn
Queue/RED set mean_pktsize_ 1000
Queue/RED set idle_pktsize_ 1000      ;# 2.35: 100. One size for idle time before
Queue/RED set thresh_ $min
Queue/RED set maxthresh_ $max
Queue/RED set linterm_ [expr {1.0 / $max_p}]
Queue/RED set q_weight_ $weight
Queue/RED set adaptive_ $adaptive
Queue/RED set feng_adaptive_ $adaptive
Queue/RED set alpha_ 3.0
Queue/RED set beta_ 2.0
Agent/TCP set ecn_ $ecn

set discipline RED
source tcps.tcl
