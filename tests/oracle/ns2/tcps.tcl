# tcps.tcl - TCP Reno of 1999 through one queue. Prints one line about it. Sourced by red.tcl and fair.tcl, which set seed,
# flows, limit, from, stop and discipline (a class of queue, configured).
#
# Output: UTILIZATION QUEUE MARKS DROPS ARRIVALS, from FROM to STOP: QUEUE is the mean number of waiting packets, without
# the one in transmission.
#
# Network: source i -(100 Mb/s, 2 + i mod 8 ms)- r0 -(10 Mb/s, 20 ms, DISCIPLINE)- r1 -(100 Mb/s, 1 ms)- sink i.

Agent/TCP set window_ 60

$defaultRNG seed $seed
set ns [new Simulator]
set start [new RandomVariable/Uniform]
$start set min_ 0.0
$start set max_ 5.0
set r0 [$ns node]
set r1 [$ns node]
Queue set limit_ 10000
$ns simplex-link $r0 $r1 10Mb 20ms $discipline
$ns simplex-link $r1 $r0 10Mb 20ms DropTail
$ns queue-limit $r0 $r1 $limit
for {set i 0} {$i < $flows} {incr i} {
    set source [$ns node]
    set sink [$ns node]
    $ns duplex-link $source $r0 100Mb [expr {2 + $i % 8}]ms DropTail
    $ns duplex-link $r1 $sink 100Mb 1ms DropTail
    set tcp [new-tcp reno]
    set tcpsink [new-sink reno 0]
    $ns attach-agent $source $tcp
    $ns attach-agent $sink $tcpsink
    $ns connect $tcp $tcpsink
    $ns at [$start value] "$tcp advance 100000000"
}
set monitor [$ns monitor-queue $r0 $r1 ""]
set queue [$monitor get-pkts-integrator]
proc begin {} {
    global monitor queue before from
    $queue newpoint $from [$monitor set pkts_]
    set before [list [$monitor set bdepartures_] [$queue set sum_] [$monitor set pmarks_] [$monitor set pdrops_] \
        [$monitor set parrivals_]]
}
proc end {} {
    global monitor queue before from stop
    $queue newpoint $stop [$monitor set pkts_]
    set after [list [$monitor set bdepartures_] [$queue set sum_] [$monitor set pmarks_] [$monitor set pdrops_] \
        [$monitor set parrivals_]]
    foreach a $before b $after { lappend found [expr {$b - $a}] }
    lassign $found bytes sum marks drops arrivals
    set seconds [expr {$stop - $from}]
    puts "[expr {8.0 * $bytes / (1e7 * $seconds)}] [expr {$sum / $seconds}] $marks $drops $arrivals"
    exit 0
}
$ns at $from begin
$ns at $stop end
$ns run
