"""Which of the kernel's route lookups are the near gateway's."""

from runner.lab.readings.lookups import Lookup, parse_trace

# Of Linux 6.18, while a stream went through OpenVPN.
TRACE = """# tracer: nop
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
          <idle>-0       [001] ..s2. 69012.101: fib_table_lookup: table 254 oif 0 iif 3 proto 17 10.1.0.2/0 -> \
10.2.0.2/0 tos 44 scope 0 flags 0 ==> dev tun2 gw 0.0.0.0/:: err 0
         openvpn-4711    [000] ..... 69012.102: fib_table_lookup: table 254 oif 0 iif 1 proto 17 192.168.0.1/1194 -> \
192.168.0.2/1194 tos 0 scope 0 flags 4 ==> dev wan0 gw 0.0.0.0/:: err 0
   kworker/0:1-e-22      [000] ..... 69012.103: fib_table_lookup: table 220 oif 0 iif 1 proto 0 0.0.0.0/0 -> \
192.168.0.2/0 tos 0 scope 0 flags 0 ==> dev - gw 0.0.0.0/:: err -11
"""


def test_a_trace_has_the_lookups_that_found_a_route() -> None:
    assert parse_trace(TRACE) == [
        Lookup(0, 3, "10.1.0.2", "10.2.0.2", 44, "tun2"),
        Lookup(4711, 1, "192.168.0.1", "192.168.0.2", 0, "wan0"),
    ]
