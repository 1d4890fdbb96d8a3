"""What packets may be wrapped in: link types and tunnels that are read, and names of others."""

from __future__ import annotations

from dcpinspect.lazy_dataclass import dataclass

READ = {
    0: "NULL, loopback of BSD and macOS",
    1: "EN10MB, Ethernet",
    9: "PPP",
    12: "RAW, as some systems number it",
    14: "RAW, as OpenBSD numbers it",
    50: "PPP_HDLC",
    51: "PPP_ETHER, PPPoE",
    101: "RAW, IP alone",
    104: "C_HDLC, Cisco's HDLC",
    105: "IEEE802_11, Wi-Fi",
    108: "LOOP, loopback of OpenBSD",
    113: "LINUX_SLL, tcpdump -i any",
    119: "IEEE802_11_PRISM",
    127: "IEEE802_11_RADIOTAP",
    204: "PPP_WITH_DIR",
    226: "IPNET, Solaris",
    228: "IPV4",
    229: "IPV6",
    239: "NFLOG, iptables and nftables",
    258: "PKTAP, all interfaces of macOS",
    276: "LINUX_SLL2, tcpdump -i any",
}
"""Link types that are read, by number."""
ETW = 289
"""Link type of an event trace of Windows."""
NOT_READ = {
    6: "IEEE802_5", 7: "ARCNET_BSD", 8: "SLIP", 10: "FDDI", 100: "ATM_RFC1483", 107: "FRELAY", 109: "ENC", 117: "PFLOG", 122: "IP_OVER_FC",
    123: "SUNATM", 137: "JUNIPER_ATM2", 138: "APPLE_IP_OVER_IEEE1394", 163: "IEEE802_11_AVS", 178: "JUNIPER_ETHER", 192: "PPI",
    197: "ERF", 224: "FC_2", 235: "DVB_CI", 240: "NETANALYZER", 241: "NETANALYZER_TRANSPARENT", 242: "IPOIB", 245: "NFC_LLCP",
    246: "PFSYNC", 247: "INFINIBAND", 260: "WIRESHARK_UPPER_PDU", 274: "ETHERNET_MPACKET", 281: "DSA_TAG_BRCM", 282: "DSA_TAG_BRCM_PREPEND",
    284: "DSA_TAG_DSA", 285: "DSA_TAG_EDSA", 287: "Z_WAVE_SERIAL", ETW: "ETW", 290: "ETHERNET_IN_NETANALYZER",
    **{number: f"USER{number - 147}" for number in range(147, 163)},
}  # fmt: skip
"""Names of link types that are not read, though TCP may be in them."""
WITHOUT_TCP = {
    139: "MTP2_WITH_PHDR", 140: "MTP2", 141: "MTP3", 142: "SCCP", 143: "DOCSIS", 144: "LINUX_IRDA", 177: "LINUX_LAPD", 186: "USB_FREEBSD",
    187: "BLUETOOTH_HCI_H4", 189: "USB_LINUX", 190: "CAN20B", 195: "IEEE802_15_4_WITHFCS", 199: "IPMB_KONTRON",
    201: "BLUETOOTH_HCI_H4_WITH_PHDR", 209: "I2C_LINUX", 215: "IEEE802_15_4_NONASK_PHY", 220: "USB_LINUX_MMAPPED", 227: "CAN_SOCKETCAN",
    230: "IEEE802_15_4_NOFCS", 231: "DBUS", 248: "SCTP", 249: "USBPCAP", 251: "BLUETOOTH_LE_LL", 253: "NETLINK",
    254: "BLUETOOTH_LINUX_MONITOR", 256: "BLUETOOTH_LE_LL_WITH_PHDR", 266: "USB_DARWIN", 271: "VSOCK", 272: "NORDIC_BLE",
    283: "IEEE802_15_4_TAP", 288: "USB_2_0",
}  # fmt: skip
"""Names of link types in which there is no TCP."""

VXLAN_PORTS = (4789, 8472)
GTP_PORT, GRE_PORT = 2152, 4754
TUNNEL_PORTS = (*VXLAN_PORTS, 4790, 6081, 6635, GTP_PORT, GRE_PORT)
"""UDP ports to which tunnels are sent: VXLAN, VXLAN-GPE, Geneve, MPLS, GTP-U and GRE."""


UNREAD = "which is not read"
"""What is said of a link type."""


@dataclass(slots=True)
class UnreadLinkType:
    """An interface with a link type that is not read."""

    interface: str
    """Its name; empty if the file does not name interfaces."""
    link_type: int
    packets: int = 0

    def __str__(self) -> str:
        packets = f"{self.packets:,} packet{'' if self.packets == 1 else 's'}"
        where = f" of interface {self.interface}" if self.interface else ""
        has = "has" if self.packets == 1 else "have"
        return f"{packets}{where} {has} link type {self.named}, {UNREAD}"

    @property
    def named(self) -> str:
        """The number of the link type, with its name where it is known."""
        name = NOT_READ.get(self.link_type) or WITHOUT_TCP.get(self.link_type)
        return f"{self.link_type}{f' ({name})' if name else ''}"

    @property
    def is_a_lack(self) -> bool:
        """Whether there were packets that may hold TCP."""
        return self.packets > 0 and self.link_type not in WITHOUT_TCP


def unread(interface: str, link_type: int) -> UnreadLinkType | None:
    """Returns a count for an interface; None if its packets are read."""
    return None if link_type in READ else UnreadLinkType(interface, link_type)
