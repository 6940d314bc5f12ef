import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.InvalidClientIDException;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSSecurityException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import org.apache.qpid.jms.JmsConnectionFactory;

/** What applications of JMS do, each case by itself: prints "ok NAME", or "failed NAME: why". */
public class Cases {
    private static final long WAIT = 20_000;
    private static final long MOMENT = 500;

    private interface Case {
        void run(Connection connection, Session session) throws Exception;
    }

    private static JmsConnectionFactory factory;

    public static void main(String[] words) throws Exception {
        factory = new JmsConnectionFactory(words[0]);
        Map<String, Case> cases = new LinkedHashMap<>();
        cases.put("queue", Cases::queue);
        cases.put("types", Cases::types);
        cases.put("topic", Cases::topic);
        cases.put("browser", Cases::browser);
        cases.put("transacted", Cases::transacted);
        cases.put("recover", Cases::recover);
        cases.put("durable", Cases::durable);
        cases.put("shared", Cases::shared);
        cases.put("shared-durable", Cases::sharedDurable);
        cases.put("temporary", Cases::temporary);
        cases.put("delay", Cases::delay);
        cases.put("context", Cases::context);
        cases.put("groups", Cases::groups);
        cases.put("large", Cases::large);
        cases.put("many", Cases::many);
        cases.put("priorities", Cases::priorities);
        cases.put("expiry", Cases::expiry);
        cases.put("acknowledge", Cases::acknowledge);
        cases.put("client-id", Cases::clientId);
        cases.put("rights", Cases::rights);
        for (Map.Entry<String, Case> each : cases.entrySet()) {
            try (Connection connection = factory.createConnection()) {
                connection.start();
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                each.getValue().run(connection, session);
                System.out.println("ok " + each.getKey());
            } catch (Throwable error) {
                System.out.println("failed " + each.getKey() + ": " + error);
            }
        }
        System.exit(0);
    }

    private static void same(Object wanted, Object found) {
        if (!Objects.equals(wanted, found)) {
            throw new AssertionError("expected " + wanted + ", got " + found);
        }
    }

    private static String text(MessageConsumer consumer) throws Exception {
        TextMessage found = (TextMessage) consumer.receive(WAIT);
        return found == null ? null : found.getText();
    }

    private static int count(MessageConsumer consumer) throws Exception {
        int found = 0;
        while (consumer.receive(MOMENT) != null) {
            found++;
        }
        return found;
    }

    private static void queue(Connection connection, Session session) throws Exception {
        Queue queue = session.createQueue("jms.queue");
        TextMessage message = session.createTextMessage("hi");
        message.setStringProperty("color", "red");
        message.setIntProperty("n", 5);
        message.setJMSCorrelationID("corr");
        message.setJMSType("kind");
        session.createProducer(queue).send(message, DeliveryMode.PERSISTENT, 7, 60_000);
        MessageConsumer consumer = session.createConsumer(queue, "n = 5 AND JMSPriority > 6");
        TextMessage found = (TextMessage) consumer.receive(WAIT);
        same("hi", found.getText());
        same("red", found.getStringProperty("color"));
        same(5, found.getIntProperty("n"));
        same("corr", found.getJMSCorrelationID());
        same("kind", found.getJMSType());
        same(7, found.getJMSPriority());
        same(DeliveryMode.PERSISTENT, found.getJMSDeliveryMode());
        same(1, found.getIntProperty("JMSXDeliveryCount"));
        same(message.getJMSMessageID(), found.getJMSMessageID());
        same("jms.queue", ((Queue) found.getJMSDestination()).getQueueName());
        same(true, found.getJMSExpiration() > System.currentTimeMillis());
    }

    private static void types(Connection connection, Session session) throws Exception {
        Queue queue = session.createQueue("jms.types");
        MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = session.createConsumer(queue);
        BytesMessage bytes = session.createBytesMessage();
        bytes.writeInt(7);
        producer.send(bytes);
        same(7, ((BytesMessage) consumer.receive(WAIT)).readInt());
        MapMessage map = session.createMapMessage();
        map.setLong("l", 9L);
        map.setBytes("b", new byte[] {1, 2});
        producer.send(map);
        MapMessage foundMap = (MapMessage) consumer.receive(WAIT);
        same(9L, foundMap.getLong("l"));
        same(2, foundMap.getBytes("b").length);
        StreamMessage stream = session.createStreamMessage();
        stream.writeString("a");
        stream.writeBoolean(true);
        producer.send(stream);
        StreamMessage foundStream = (StreamMessage) consumer.receive(WAIT);
        same("a", foundStream.readString());
        same(true, foundStream.readBoolean());
        producer.send(session.createObjectMessage(new ArrayList<>(List.of("z"))));
        same(true, consumer.receive(WAIT) instanceof ObjectMessage);
        producer.send(session.createMessage());
        same(true, consumer.receive(WAIT) != null);
    }

    private static void topic(Connection connection, Session session) throws Exception {
        Topic topic = session.createTopic("jms.topic");
        MessageConsumer all = session.createConsumer(topic);
        MessageConsumer some = session.createConsumer(topic, "n > 3");
        MessageProducer producer = session.createProducer(topic);
        for (int number = 0; number < 6; number++) {
            Message message = session.createTextMessage("t" + number);
            message.setIntProperty("n", number);
            producer.send(message);
        }
        for (int number = 0; number < 6; number++) {
            same("t" + number, text(all));
        }
        same("t4", text(some));
        same("t5", text(some));
    }

    private static void browser(Connection connection, Session session) throws Exception {
        Queue queue = session.createQueue("jms.browser");
        MessageProducer producer = session.createProducer(queue);
        for (int number = 0; number < 5; number++) {
            producer.send(session.createTextMessage("b" + number));
        }
        try (QueueBrowser browser = session.createBrowser(queue)) {
            int found = 0;
            Enumeration<?> each = browser.getEnumeration();
            while (each.hasMoreElements()) {
                same("b" + found++, ((TextMessage) each.nextElement()).getText());
            }
            same(5, found);
        }
        same(5, count(session.createConsumer(queue)));
    }

    private static void transacted(Connection connection, Session ignored) throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue("jms.transacted");
        MessageProducer producer = session.createProducer(queue);
        producer.send(session.createTextMessage("no"));
        session.rollback();
        producer.send(session.createTextMessage("yes"));
        session.commit();
        MessageConsumer consumer = session.createConsumer(queue);
        same("yes", text(consumer));
        session.rollback();
        TextMessage again = (TextMessage) consumer.receive(WAIT);
        same("yes", again.getText());
        same(true, again.getJMSRedelivered());
        same(2, again.getIntProperty("JMSXDeliveryCount"));
        session.commit();
        same(0, count(consumer));
    }

    private static void recover(Connection connection, Session ignored) throws Exception {
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue("jms.recover");
        MessageProducer producer = session.createProducer(queue);
        producer.send(session.createTextMessage("1"));
        producer.send(session.createTextMessage("2"));
        MessageConsumer consumer = session.createConsumer(queue);
        same("1", text(consumer));
        session.recover();
        TextMessage again = (TextMessage) consumer.receive(WAIT);
        same("1", again.getText());
        same(true, again.getJMSRedelivered());
        TextMessage last = (TextMessage) consumer.receive(WAIT);
        same("2", last.getText());
        last.acknowledge();
        same(0, count(consumer));
    }

    private static void durable(Connection ignored, Session unused) throws Exception {
        for (int round = 0; round < 2; round++) {
            try (Connection connection = factory.createConnection()) {
                connection.setClientID("client");
                connection.start();
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                Topic topic = session.createTopic("jms.durable");
                MessageConsumer consumer = session.createDurableSubscriber(topic, "sub");
                if (round == 0) {
                    consumer.close();
                    session.createProducer(topic).send(session.createTextMessage("away"));
                    continue;
                }
                same("away", text(consumer));
                consumer.close();
                session.unsubscribe("sub");
                try {
                    session.unsubscribe("sub");
                    throw new AssertionError("unsubscribed twice");
                } catch (InvalidDestinationException expected) {
                    continue;
                }
            }
        }
    }

    private static void shared(Connection connection, Session session) throws Exception {
        Topic topic = session.createTopic("jms.shared");
        try (Connection second = factory.createConnection()) {
            second.start();
            Session other = second.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer one = session.createSharedConsumer(topic, "shared");
            MessageConsumer two = other.createSharedConsumer(topic, "shared");
            MessageProducer producer = session.createProducer(topic);
            for (int number = 0; number < 10; number++) {
                producer.send(session.createTextMessage("s"));
            }
            same(10, count(one) + count(two));
        }
    }

    private static void sharedDurable(Connection connection, Session session) throws Exception {
        Topic topic = session.createTopic("jms.shared.durable");
        session.createSharedDurableConsumer(topic, "kept").close();
        session.createProducer(topic).send(session.createTextMessage("kept"));
        MessageConsumer consumer = session.createSharedDurableConsumer(topic, "kept");
        same("kept", text(consumer));
        consumer.close();
        session.unsubscribe("kept");
    }

    private static void temporary(Connection connection, Session session) throws Exception {
        TemporaryQueue queue = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(queue);
        session.createProducer(queue).send(session.createTextMessage("t"));
        same("t", text(consumer));
        consumer.close();
        queue.delete();
        Topic topic = session.createTemporaryTopic();
        MessageConsumer subscriber = session.createConsumer(topic);
        session.createProducer(topic).send(session.createTextMessage("tt"));
        same("tt", text(subscriber));
        Queue service = session.createQueue("jms.service");
        TemporaryQueue replies = session.createTemporaryQueue();
        Message request = session.createTextMessage("request");
        request.setJMSReplyTo(replies);
        session.createProducer(service).send(request);
        Message found = session.createConsumer(service).receive(WAIT);
        session.createProducer(found.getJMSReplyTo()).send(session.createTextMessage("answer"));
        same("answer", text(session.createConsumer(replies)));
    }

    private static void delay(Connection connection, Session session) throws Exception {
        Queue queue = session.createQueue("jms.delay");
        MessageProducer producer = session.createProducer(queue);
        producer.setDeliveryDelay(2_000);
        long before = System.currentTimeMillis();
        producer.send(session.createTextMessage("later"));
        same("later", text(session.createConsumer(queue)));
        same(true, System.currentTimeMillis() - before >= 1_900);
    }

    private static void context(Connection connection, Session session) throws Exception {
        try (JMSContext context = factory.createContext()) {
            Queue queue = context.createQueue("jms.context");
            context.createProducer().setProperty("a", 1).send(queue, "body");
            same("body", context.createConsumer(queue).receiveBody(String.class, WAIT));
        }
    }

    private static void groups(Connection connection, Session session) throws Exception {
        Queue queue = session.createQueue("jms.groups");
        MessageConsumer one = session.createConsumer(queue);
        MessageConsumer two = session.createConsumer(queue);
        MessageProducer producer = session.createProducer(queue);
        for (int number = 0; number < 6; number++) {
            Message message = session.createTextMessage("g");
            message.setStringProperty("JMSXGroupID", "one");
            producer.send(message);
        }
        int first = count(one);
        int second = count(two);
        same(6, first + second);
        same(0, Math.min(first, second));
    }

    private static void large(Connection connection, Session session) throws Exception {
        Queue queue = session.createQueue("jms.large");
        byte[] sent = new byte[5_000_000];
        new Random(1).nextBytes(sent);
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(sent);
        session.createProducer(queue).send(message);
        BytesMessage found = (BytesMessage) session.createConsumer(queue).receive(WAIT);
        byte[] received = new byte[sent.length];
        found.readBytes(received);
        same(true, Arrays.equals(sent, received));
    }

    private static void many(Connection connection, Session session) throws Exception {
        Queue queue = session.createQueue("jms.many");
        MessageProducer producer = session.createProducer(queue);
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        for (int number = 0; number < 2_000; number++) {
            producer.send(session.createTextMessage("" + number));
        }
        MessageConsumer consumer = session.createConsumer(queue);
        for (int number = 0; number < 2_000; number++) {
            same("" + number, text(consumer));
        }
    }

    private static void priorities(Connection connection, Session session) throws Exception {
        Queue queue = session.createQueue("jms.priorities");
        MessageProducer producer = session.createProducer(queue);
        for (int priority : new int[] {1, 9, 4}) {
            TextMessage message = session.createTextMessage(Integer.toString(priority));
            producer.send(message, DeliveryMode.PERSISTENT, priority, 0);
        }
        MessageConsumer consumer = session.createConsumer(queue);
        same("9", text(consumer));
        same("4", text(consumer));
        same("1", text(consumer));
    }

    private static void expiry(Connection connection, Session session) throws Exception {
        Queue queue = session.createQueue("jms.expiry");
        MessageProducer producer = session.createProducer(queue);
        producer.send(session.createTextMessage("old"), DeliveryMode.PERSISTENT, 4, 1);
        producer.send(session.createTextMessage("new"), DeliveryMode.PERSISTENT, 4, 600_000);
        Thread.sleep(20);
        same("new", text(session.createConsumer(queue)));
    }

    private static void acknowledge(Connection ignored, Session unused) throws Exception {
        for (int attempt = 1; attempt <= 2; attempt++) {
            try (Connection connection = factory.createConnection()) {
                connection.start();
                Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
                Queue queue = session.createQueue("jms.acknowledge");
                if (attempt == 1) {
                    session.createProducer(queue).send(session.createTextMessage("a"));
                }
                Message found = session.createConsumer(queue).receive(WAIT);
                same(attempt > 1, found.getJMSRedelivered());
                same(attempt, found.getIntProperty("JMSXDeliveryCount"));
                if (attempt == 2) {
                    found.acknowledge();
                    same(0, count(session.createConsumer(queue)));
                } else {
                    session.recover();
                }
            }
        }
    }

    /** A producer without the right to send is refused, and an anonymous one when it sends. */
    private static void rights(Connection connection, Session session) throws Exception {
        Queue locked = session.createQueue("locked");
        try {
            session.createProducer(locked);
            throw new AssertionError("a producer may send to " + locked);
        } catch (JMSSecurityException expected) {
            same(true, expected.getMessage().contains("permission send is missing"));
        }
        try {
            session.createProducer(null).send(locked, session.createTextMessage("no"));
            throw new AssertionError("a message was sent to " + locked);
        } catch (JMSSecurityException expected) {
            same(true, expected.getMessage().contains("permission send is missing"));
        }
        session.createProducer(session.createQueue("open")).send(session.createTextMessage("yes"));
    }

    private static void clientId(Connection ignored, Session unused) throws Exception {
        try (Connection first = factory.createConnection();
                Connection second = factory.createConnection()) {
            first.setClientID("only");
            first.start();
            try {
                second.setClientID("only");
                second.start();
                throw new AssertionError("two connections have one client id");
            } catch (InvalidClientIDException expected) {
                same(true, expected.getMessage() != null);
            }
        }
    }
}
