import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.Arrays;
import java.util.List;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * A shop: {@code send} sends five orders, {@code work} charges for them, with Qpid JMS.
 *
 * <p>An order that could not be charged is given back, and comes again later. With {@code work
 * guests} orders without a customer can be charged, too. The port is the last word.
 *
 * <pre>java -cp CLASSPATH docs/examples/Orders.java send</pre>
 */
class Orders {
    private static final List<String> CUSTOMERS = Arrays.asList("ada", "bob", "cyd", null, "eve");
    private static final long IDLE_MS = 6_000;
    // Of Qpid JMS: each message is settled by itself, and may be given back as a failed attempt.
    private static final int INDIVIDUAL_ACKNOWLEDGE = 101;
    private static final int MODIFIED_FAILED = 4;

    public static void main(String[] args) throws Exception {
        List<String> words = List.of(args);
        String last = args[args.length - 1];
        String port = last.matches("\\d+") ? last : "61613";
        JmsConnectionFactory factory =
                new JmsConnectionFactory("guest", "guest", "amqp://127.0.0.1:" + port);
        try (Connection connection = factory.createConnection()) {
            connection.start();
            Session session = connection.createSession(false, INDIVIDUAL_ACKNOWLEDGE);
            Queue queue = session.createQueue("orders");
            if (words.get(0).equals("send")) {
                send(session, session.createProducer(queue));
            } else {
                work(session.createConsumer(queue), words.contains("guests"));
            }
        }
    }

    /** Returns why an order cannot be charged, "" if it was. */
    private static String charge(String order, String number, int attempt, boolean guests) {
        if (!order.matches(".*\"customer\": ?\"\\w+\".*") && !guests) {
            return "no customer";
        }
        if (number.equals("3") && attempt == 1) {
            return "the bank does not answer";
        }
        return "";
    }

    /** Sends the orders; {@code send} returns when an order is on the broker's disk. */
    private static void send(Session session, MessageProducer producer) throws JMSException {
        for (int number = 1; number <= CUSTOMERS.size(); number++) {
            String customer = CUSTOMERS.get(number - 1);
            String name = customer == null ? "null" : "\"" + customer + "\"";
            TextMessage order =
                    session.createTextMessage(
                            "{\"number\": " + number + ", \"customer\": " + name + "}");
            order.setStringProperty("order", String.valueOf(number));
            producer.send(order);
            System.out.println("order " + number + " is safe");
        }
    }

    /** Charges for orders until none came for a while. */
    private static void work(MessageConsumer consumer, boolean guests) throws JMSException {
        TextMessage order;
        while ((order = (TextMessage) consumer.receive(IDLE_MS)) != null) {
            String number = order.getStringProperty("order");
            int attempt = order.getIntProperty("JMSXDeliveryCount");
            String error = charge(order.getText(), number, attempt, guests);
            if (!error.isEmpty()) {
                order.setIntProperty("JMS_AMQP_ACK_TYPE", MODIFIED_FAILED);
            }
            order.acknowledge();
            String outcome = error.isEmpty() ? "charged" : error;
            System.out.println("order " + number + ", attempt " + attempt + ": " + outcome);
        }
    }
}
