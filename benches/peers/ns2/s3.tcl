# s3.tcl - peer scenario S3 for ns-2: thousands of TCPs, RED with ECN.
#
# S2 (see s2.tcl) with 4000 TCPs; starts spread over 1 s; 30 s.
# Measures build time and memory as much as run time; how to run and what is
# printed: see common.tcl.
source [file join [file dirname [info script]] common.tcl]
new-simulator 30
tcp-defaults 1000 1000 1
red-defaults
tcp-dumbbell 4000 100Mb 5ms 45Mb 10ms RED 1000 [expr {1.0 / 4000}]
simulate s3 {tcp-payload-bits 1000}
