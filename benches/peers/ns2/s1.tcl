# s1.tcl - peer scenario S1 for ns-2: few TCPs, drop-tail.
#
# 8 TCP NewReno, 1000 bytes of payload (1040 on the wire), dumbbell: hosts
# 100 Mb/s, 1 ms; bottleneck 10 Mb/s, 8 ms, drop-tail 100 packets; delayed ACKs;
# receiver's window 1000 packets; flow i starts at i * 0.1 s; 100 s.
# Measures wall-clock time per packet-hop; how to run and what is printed: see
# common.tcl.
source [file join [file dirname [info script]] common.tcl]
new-simulator 100
tcp-defaults 1000 1000 0
tcp-dumbbell 8 100Mb 1ms 10Mb 8ms DropTail 100 0.1
simulate s1 {tcp-payload-bits 1000}
