# profile.tcl - settings that make ns-2.35's one-way TCP agents follow the ns
# of 1997-1999 (the profile `ns-1999`), and a few helpers. Sourced by
# droplist.tcl and throughput.tcl; it runs nothing by itself.
#
# Each line says why it is there; "2.35:" gives ns-2.35's own default. Values
# that already are the default are set all the same, so that the file shows
# everything the results depend on.

# --- clock, RTT and retransmission timer -------------------------------------
Agent/TCP set tcpTick_ 0.1            ;# 2.35: 0.01. 100 ms until 2002-03
Agent/TCP set rtxcur_init_ 6.0        ;# 2.35: 3.0.  RTO before the first sample was 6 s until 2006-01
Agent/TCP set minrto_ 0.2             ;# 2.35: 0.2.  No such setting in 1999; the floor was 2 ticks = 0.2 s
Agent/TCP set maxrto_ 64              ;# 2.35: 60
Agent/TCP set rfc2988_ false          ;# 2.35: true. 1999: the floor was applied after the backoff
Agent/TCP set timerfix_ false         ;# 2.35: true. 1999: timer restarted before the new RTT sample is taken in
Agent/TCP set srtt_init_ 0            ;# 2.35: 0
Agent/TCP set rttvar_init_ 12         ;# 2.35: 12. Without effect: the first sample overwrites it
Agent/TCP set T_SRTT_BITS 3           ;# 2.35: 3
Agent/TCP set T_RTTVAR_BITS 2         ;# 2.35: 2
Agent/TCP set rttvar_exp_ 2           ;# 2.35: 2
Agent/TCP set timestamps_ false       ;# 2.35: false. One packet timed per round trip, no option bytes
Agent/TCP set ts_resetRTO_ false      ;# 2.35: false. Only matters with timestamps

# --- start of a connection ----------------------------------------------------
Agent/TCP set syn_ false              ;# 2.35: true. No SYN: packet 0 is a full data packet
Agent/TCP set delay_growth_ false     ;# 2.35: true. Goes with the SYN
Agent/TCP set windowInit_ 1           ;# 2.35: 2
Agent/TCP set windowInitOption_ 1     ;# 2.35: 1. Use windowInit_ as it is
Agent/TCP set bugfix_ss_ 0            ;# 2.35: 1. Added 2006
Agent/TCP set max_ssthresh_ 0         ;# 2.35: 0. ssthresh starts at window_

# --- sizes --------------------------------------------------------------------
Agent/TCP set packetSize_ 1000        ;# 2.35: 1000
Agent/TCP set useHeaders_ false       ;# 2.35: true (adds 40). Off: packetSize_ is the size on the wire
Agent/TCP set overhead_ 0             ;# 2.35: 0. No random delay before a send
Agent/TCPSink set packetSize_ 40      ;# 2.35: 40. SACK blocks add 8 bytes each
Agent/TCPSink set maxSackBlocks_ 3    ;# 2.35: 3

# --- window -------------------------------------------------------------------
Agent/TCP set windowOption_ 1         ;# 2.35: 1. cwnd += 1/cwnd
Agent/TCP set increase_num_ 1.0       ;# 2.35: 1
Agent/TCP set decrease_num_ 0.5       ;# 2.35: 0.5
Agent/TCP set precisionReduce_ false  ;# 2.35: true. Integer halving until 2006-01
Agent/TCP set maxcwnd_ 0              ;# 2.35: 0. No limit on cwnd
Agent/TCP set maxburst_ 0             ;# 2.35: 0. No limit on a burst
Agent/TCP set slow_start_restart_ true ;# 2.35: true
Agent/TCP set restart_bugfix_ true    ;# 2.35: true (since 1997)
Agent/TCP set control_increase_ 0     ;# 2.35: 0
Agent/TCP set QOption_ 0              ;# 2.35: 0

# --- loss recovery ------------------------------------------------------------
Agent/TCP set numdupacks_ 3           ;# 2.35: 3
Agent/TCP set numdupacksFrac_ -1      ;# 2.35: -1. Keeps 3 for every window
Agent/TCP set singledup_ 0            ;# 2.35: 1. Limited Transmit came in 2001
Agent/TCP set bugFix_ true            ;# 2.35: true
Agent/TCP set bugFix_ack_ false       ;# 2.35: false
Agent/TCP set bugFix_ts_ false        ;# 2.35: false
Agent/TCP set lessCareful_ false      ;# 2.35: false
Agent/TCP set exitFastRetrans_ false  ;# 2.35: true. Until 2003 dup ACKs went on inflating the window
Agent/TCP set noFastRetrans_ false    ;# 2.35: false
Agent/TCP set oldCode_ true           ;# 2.35: false. Sack1: pipe = cwnd - 3 on entry until 2000-08
Agent/TCP set partial_ack_ false      ;# 2.35: false
Agent/TCP set ecn_ 0                  ;# 2.35: 0
Agent/TCP set frto_enabled_ 0         ;# 2.35: 0
Agent/TCP set sfrto_enabled_ 0        ;# 2.35: 0
Agent/TCP set qs_enabled_ false       ;# 2.35: false
Agent/TCP/Newreno set newreno_changes_ 0          ;# 2.35: 0
Agent/TCP/Newreno set newreno_changes1_ 0         ;# 2.35: 1. Until 2003-05: timer restarts on every partial ACK
Agent/TCP/Newreno set partial_window_deflation_ 0 ;# 2.35: 1. Until 2003-05: a partial ACK drops all inflation
Agent/TCP/Newreno set exit_recovery_fix_ 0        ;# 2.35: 0
Agent/TCP/Sack1 set partial_ack_ false            ;# 2.35: false

# --- receivers ----------------------------------------------------------------
Agent/TCPSink set RFC2581_immediate_ack_ false ;# 2.35: true. Added 2000-04
Agent/TCPSink set SYN_immediate_ack_ false     ;# 2.35: true. Added 2010
Agent/TCPSink set generateDSacks_ false        ;# 2.35: false
Agent/TCPSink/DelAck set interval_ 100ms       ;# 2.35: 100ms
Agent/TCPSink/Sack1/DelAck set interval_ 100ms ;# 2.35: 100ms

# Sender and sink classes by our names.
# `reno-nobugfix` is Reno with bugFix_ false: see README.md, section 3.
array set tcpClass {
    tahoe Agent/TCP
    reno Agent/TCP/Reno
    reno-nobugfix Agent/TCP/Reno
    newreno Agent/TCP/Newreno
    sack1 Agent/TCP/Sack1
}

proc new-tcp {variant} {
    global tcpClass
    set tcp [new $tcpClass($variant)]
    if {$variant == "reno-nobugfix"} { $tcp set bugFix_ false }
    return $tcp
}

proc new-sink {variant delack} {
    if {$variant == "sack1"} {
        if {$delack} { return [new Agent/TCPSink/Sack1/DelAck] }
        return [new Agent/TCPSink/Sack1]
    }
    if {$delack} { return [new Agent/TCPSink/DelAck] }
    return [new Agent/TCPSink]
}

# The agent draws its clock phase boot_time_ (uniform in one tick) whenever it
# is reset. Give it a known one: seed the default generator, look at the first
# draw, seed again and reset the agent. Must run as an event at time 0, after
# the resets that `$ns run` does itself. Returns the phase in seconds.
proc reset-with-seed {tcp seed} {
    global defaultRNG
    $defaultRNG seed $seed
    set phase [$defaultRNG uniform 0 [Agent/TCP set tcpTick_]]
    $defaultRNG seed $seed
    $tcp reset
    return $phase
}
