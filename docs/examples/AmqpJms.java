import jakarta.jms.Connection;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * Three orders through a queue over AMQP 1.0, with Qpid JMS (org.apache.qpid:qpid-jms-client).
 *
 * <p>send returns when the broker has the order on its disk. With a URL like
 * failover:(amqp://127.0.0.1:5672) the client connects again after a restart of the broker.
 *
 * <pre>java -cp CLASSPATH docs/examples/AmqpJms.java amqp://127.0.0.1:5672 orders</pre>
 */
class AmqpJms {
    private static final int ORDERS = 3;
    private static final long WAIT_MS = 10_000;

    public static void main(String[] words) throws Exception {
        JmsConnectionFactory factory = new JmsConnectionFactory("guest", "guest", words[0]);
        try (Connection connection = factory.createConnection()) {
            connection.start();
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Queue queue = session.createQueue(words[1]);
            MessageProducer producer = session.createProducer(queue);
            for (int number = 1; number <= ORDERS; number++) {
                TextMessage order = session.createTextMessage("order " + number);
                order.setStringProperty("customer", "alice");
                producer.send(order);
                System.out.println("accepted order " + number);
            }
            MessageConsumer consumer = session.createConsumer(queue, "customer = 'alice'");
            for (int number = 1; number <= ORDERS; number++) {
                TextMessage order = (TextMessage) consumer.receive(WAIT_MS);
                String customer = order.getStringProperty("customer");
                System.out.println("received " + order.getText() + " of " + customer);
                order.acknowledge();
            }
        }
    }
}
