// A shop: `orders send` sends five orders, `orders work` charges for them, with go-amqp.
//
// An order that could not be charged is given back, and comes again later. With `orders work guests`
// orders without a customer can be charged, too. The port is the last word.
//
//	go mod init shop && go get github.com/Azure/go-amqp
//	go run docs/examples/orders.go send
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/Azure/go-amqp"
)

const idle = 6 * time.Second

type order struct {
	Number   int    `json:"number"`
	Customer string `json:"customer,omitempty"`
}

func main() {
	words := os.Args[1:]
	port := 61613
	if number, err := strconv.Atoi(words[len(words)-1]); err == nil {
		port = number
	}
	if err := run(words, fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d", port)); err != nil {
		log.Fatal(err)
	}
}

func run(words []string, url string) error {
	ctx := context.Background()
	connection, err := amqp.Dial(ctx, url, nil)
	if err != nil {
		return err
	}
	defer connection.Close()
	session, err := connection.NewSession(ctx, nil)
	if err != nil {
		return err
	}
	if words[0] == "send" {
		return send(ctx, session)
	}
	return work(ctx, session, slices.Contains(words, "guests"))
}

// charge returns why an order cannot be charged, "" if it was.
func charge(order order, attempt uint32, guests bool) string {
	if order.Customer == "" && !guests {
		return "no customer"
	}
	if order.Number == 3 && attempt == 1 {
		return "the bank does not answer"
	}
	return ""
}

// send sends the orders; Send returns when an order is on the broker's disk.
func send(ctx context.Context, session *amqp.Session) error {
	sender, err := session.NewSender(ctx, "orders", nil)
	if err != nil {
		return err
	}
	for number, customer := range []string{"ada", "bob", "cyd", "", "eve"} {
		order := order{number + 1, customer}
		body, err := json.Marshal(order)
		if err != nil {
			return err
		}
		message := &amqp.Message{
			Header:                &amqp.MessageHeader{Durable: true},
			ApplicationProperties: map[string]any{"order": strconv.Itoa(order.Number)},
			Value:                 string(body),
		}
		if err := sender.Send(ctx, message, nil); err != nil {
			return err
		}
		fmt.Printf("order %d is safe\n", order.Number)
	}
	return sender.Close(ctx)
}

// work charges for orders until none came for a while.
func work(ctx context.Context, session *amqp.Session, guests bool) error {
	receiver, err := session.NewReceiver(ctx, "orders", &amqp.ReceiverOptions{Credit: 10})
	if err != nil {
		return err
	}
	for {
		waiting, cancel := context.WithTimeout(ctx, idle)
		message, err := receiver.Receive(waiting, nil)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return receiver.Close(ctx)
		}
		if err != nil {
			return err
		}
		if err := settle(ctx, receiver, message, guests); err != nil {
			return err
		}
	}
}

func settle(ctx context.Context, receiver *amqp.Receiver, message *amqp.Message, guests bool) error {
	var order order
	if err := json.Unmarshal([]byte(message.Value.(string)), &order); err != nil {
		return err
	}
	attempt := message.Header.DeliveryCount + 1
	if reason := charge(order, attempt, guests); reason != "" {
		fmt.Printf("order %d, attempt %d: %s\n", order.Number, attempt, reason)
		failed := &amqp.ModifyMessageOptions{DeliveryFailed: true}
		return receiver.ModifyMessage(ctx, message, failed)
	}
	fmt.Printf("order %d, attempt %d: charged\n", order.Number, attempt)
	return receiver.AcceptMessage(ctx, message)
}
