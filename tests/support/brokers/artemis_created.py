"""The folder `etc` as `artemis create` of Artemis 2.44 leaves it, as far as it says something."""

from pathlib import Path
from typing import Final

HASHED: Final = (
    "ENC(1024:973A466A489ABFDED3D4B3D181DC77F410F2FC6E87432809A46B72B294147D76:"
    "C999ECA8A85387E1FFB14E4FE5CECD17948BA80BA04318A9BE4C3E34B7FE2925F43AB6BC9DFE0D9855DA67439AEEB9"
    "850351BC4D5D3AEC6A6903C42B8EB4ED1E)"
)
"""Artemis's hash of the passcode `password`, from its own tests."""

_SOCKET: Final = "tcpSendBufferSize=1048576;tcpReceiveBufferSize=1048576"
_AMQP: Final = "amqpCredits=1000;amqpLowCredits=300;amqpDuplicateDetection=true"
_PERMISSIONS: Final = (
    "createNonDurableQueue", "deleteNonDurableQueue", "createDurableQueue", "deleteDurableQueue",
    "createAddress", "deleteAddress", "consume", "browse", "send",
)  # fmt: skip


def _granted(*kinds: str) -> str:
    return "".join(f'<permission type="{kind}" roles="amq"/>\n' for kind in kinds)


def _setting(match: str, *more: str) -> str:
    return "\n".join(
        [
            f'<address-setting match="{match}">',
            "<dead-letter-address>DLQ</dead-letter-address>",
            "<expiry-address>ExpiryQueue</expiry-address>",
            "<redelivery-delay>0</redelivery-delay>",
            "<message-counter-history-day-limit>10</message-counter-history-day-limit>",
            "<address-full-policy>PAGE</address-full-policy>",
            "<auto-create-queues>true</auto-create-queues>",
            "<auto-create-addresses>true</auto-create-addresses>",
            *more,
            "</address-setting>",
        ]
    )


BROKER_XML: Final = f"""<?xml version='1.0'?>
<configuration xmlns="urn:activemq" xmlns:xi="http://www.w3.org/2001/XInclude">
<core xmlns="urn:activemq:core">
<name>0.0.0.0</name>
<persistence-enabled>true</persistence-enabled>
<max-redelivery-records>1</max-redelivery-records>
<journal-type>ASYNCIO</journal-type>
<paging-directory>data/paging</paging-directory>
<bindings-directory>data/bindings</bindings-directory>
<journal-directory>data/journal</journal-directory>
<large-messages-directory>data/large-messages</large-messages-directory>
<journal-datasync>true</journal-datasync>
<journal-min-files>2</journal-min-files>
<journal-pool-files>10</journal-pool-files>
<journal-device-block-size>4096</journal-device-block-size>
<journal-file-size>10M</journal-file-size>
<journal-buffer-timeout>212000</journal-buffer-timeout>
<journal-max-io>4096</journal-max-io>
<disk-scan-period>5000</disk-scan-period>
<max-disk-usage>90</max-disk-usage>
<critical-analyzer>true</critical-analyzer>
<critical-analyzer-timeout>120000</critical-analyzer-timeout>
<critical-analyzer-check-period>60000</critical-analyzer-check-period>
<critical-analyzer-policy>HALT</critical-analyzer-policy>
<page-sync-timeout>212000</page-sync-timeout>
<global-max-messages>-1</global-max-messages>
<acceptors>
<acceptor name="artemis">tcp://HOST:61616?{_SOCKET};amqpMinLargeMessageSize=102400;protocols=CORE,\
AMQP,STOMP,HORNETQ,MQTT,OPENWIRE;useEpoll=true;{_AMQP};supportAdvisory=false;\
suppressInternalManagementObjects=false</acceptor>
<acceptor name="amqp">tcp://HOST:5672?{_SOCKET};protocols=AMQP;useEpoll=true;{_AMQP}</acceptor>
<acceptor name="stomp">tcp://HOST:61613?{_SOCKET};protocols=STOMP;useEpoll=true</acceptor>
<acceptor name="hornetq">tcp://HOST:5445?anycastPrefix=jms.queue.;multicastPrefix=jms.topic.;\
protocols=HORNETQ,STOMP;useEpoll=true</acceptor>
<acceptor name="mqtt">tcp://HOST:1883?{_SOCKET};protocols=MQTT;useEpoll=true</acceptor>
</acceptors>
<security-settings>
<security-setting match="#">
{_granted(*_PERMISSIONS)}</security-setting>
<security-setting match="activemq.management.#">
{_granted("manage", *_PERMISSIONS)}</security-setting>
</security-settings>
<address-settings>
{_setting("activemq.management.#")}
{
    _setting(
        "#",
        "<auto-delete-queues>false</auto-delete-queues>",
        "<page-size-bytes>10M</page-size-bytes>",
        "<max-size-bytes>-1</max-size-bytes>",
        "<max-read-page-bytes>20M</max-read-page-bytes>",
    )
}
</address-settings>
<addresses>
<address name="DLQ"><anycast><queue name="DLQ" /></anycast></address>
<address name="ExpiryQueue"><anycast><queue name="ExpiryQueue" /></anycast></address>
</addresses>
</core>
</configuration>
"""

LOGIN_CONFIG: Final = """/*
 * A licence; with words { and signs } in it.
 */

activemq {
   org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule sufficient
       debug=false
       reload=true
       org.apache.activemq.jaas.properties.user="artemis-users.properties"
       org.apache.activemq.jaas.properties.role="artemis-roles.properties";
%s};
"""
GUEST_MODULE: Final = """
   org.apache.activemq.artemis.spi.core.security.jaas.GuestLoginModule sufficient
       debug=false
       org.apache.activemq.jaas.guest.user="admin"
       org.apache.activemq.jaas.guest.role="amq";
"""


def create(folder: Path, *, anonymous: bool = False, host: str = "0.0.0.0") -> Path:
    """Write the files; return the broker.xml. The user admin has the passcode `password`."""
    folder.mkdir(parents=True, exist_ok=True)
    broker = folder / "broker.xml"
    broker.write_text(BROKER_XML.replace("HOST", host))
    (folder / "login.config").write_text(LOGIN_CONFIG % (GUEST_MODULE if anonymous else ""))
    (folder / "artemis-users.properties").write_text(f"## users\n\nadmin = {HASHED}\n")
    (folder / "artemis-roles.properties").write_text("## roles\n\namq = admin\n")
    return broker
