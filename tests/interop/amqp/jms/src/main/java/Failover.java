import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * An application that stays while its broker is killed: one connection sends, another one receives.
 *
 * <p>Prints "sent N" when a send has returned, and "got N COUNT" for each message that was received,
 * with its JMSXDeliveryCount. Arguments: the URL, and how many messages.
 */
public class Failover {
    private static final long WAIT = 60_000;

    public static void main(String[] words) throws Exception {
        JmsConnectionFactory factory = new JmsConnectionFactory(words[0]);
        int count = Integer.parseInt(words[1]);
        Thread sender = new Thread(() -> send(factory, count));
        sender.start();
        boolean[] seen = new boolean[count];
        try (Connection connection = factory.createConnection()) {
            connection.start();
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(session.createQueue("failover"));
            for (int left = count; left > 0; ) {
                TextMessage found = (TextMessage) consumer.receive(WAIT);
                if (found == null) {
                    say("lost " + left);
                    break;
                }
                int number = Integer.parseInt(found.getText());
                say("got " + number + " " + found.getIntProperty("JMSXDeliveryCount"));
                acknowledge(found);
                if (!seen[number]) {
                    seen[number] = true;
                    left--;
                }
            }
        }
        sender.join();
        System.exit(0);
    }

    private static void acknowledge(Message found) {
        try {
            found.acknowledge();
        } catch (Exception lost) {
            // The connection was lost: the message comes again.
            say("unsure");
        }
    }

    private static void send(JmsConnectionFactory factory, int count) {
        try (Connection connection = factory.createConnection()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue("failover");
            MessageProducer producer = session.createProducer(queue);
            producer.setDeliveryMode(DeliveryMode.PERSISTENT);
            for (int number = 0; number < count; number++) {
                TextMessage message = session.createTextMessage(Integer.toString(number));
                // What the client sends again after a failure is not a second message.
                message.setStringProperty("_AMQ_DUPL_ID", "f" + number);
                producer.send(message);
                say("sent " + number);
            }
        } catch (Exception error) {
            say("failed " + error);
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
    }
}
