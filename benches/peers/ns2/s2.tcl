# s2.tcl - peer scenario S2 for ns-2: hundreds of TCPs, RED with ECN.
#
# 400 TCP NewReno with ECN, 1000 bytes of payload, dumbbell: hosts 100 Mb/s, 5 ms;
# bottleneck 45 Mb/s, 10 ms, RED (thresholds 100 and 300 packets, limit 1000,
# max_p 0.1, w_q 0.002); delayed ACKs; receiver's window 1000 packets; starts
# spread over 1 s; 100 s.
# Measures wall-clock time per packet-hop; how to run and what is printed: see
# common.tcl.
source [file join [file dirname [info script]] common.tcl]
new-simulator 100
tcp-defaults 1000 1000 1
red-defaults
tcp-dumbbell 400 100Mb 5ms 45Mb 10ms RED 1000 [expr {1.0 / 400}]
simulate s2 {tcp-payload-bits 1000}
