# s4.tcl - peer scenario S4 for ns-2: a fast link.
#
# 10 TCP NewReno, 1460 bytes of payload (1500 on the wire), dumbbell: hosts
# 10 Gb/s, 10 us; bottleneck 1 Gb/s, 10 ms, drop-tail 1000 packets; delayed ACKs;
# receiver's window 10000 packets; flow i starts at i * 0.01 s; 10 s.
# Measures wall-clock time per packet-hop; how to run and what is printed: see
# common.tcl.
source [file join [file dirname [info script]] common.tcl]
new-simulator 10
tcp-defaults 1460 10000 0
tcp-dumbbell 10 10Gb 10us 1Gb 10ms DropTail 1000 0.01
simulate s4 {tcp-payload-bits 1460}
