// Three orders through a queue over AMQP 1.0, with github.com/Azure/go-amqp.
//
// Send returns when the broker has the order on its disk.
//
//	go mod init example && go get github.com/Azure/go-amqp
//	go run docs/examples/amqp_go.go amqp://guest:guest@127.0.0.1:5672 orders
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/Azure/go-amqp"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(url, address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	connection, err := amqp.Dial(ctx, url, nil)
	if err != nil {
		return err
	}
	defer connection.Close()
	session, err := connection.NewSession(ctx, nil)
	if err != nil {
		return err
	}
	if err := send(ctx, session, address); err != nil {
		return err
	}
	return receive(ctx, session, address)
}

func send(ctx context.Context, session *amqp.Session, address string) error {
	sender, err := session.NewSender(ctx, address, nil)
	if err != nil {
		return err
	}
	defer sender.Close(ctx)
	for number := 1; number <= 3; number++ {
		message := &amqp.Message{
			Header:                &amqp.MessageHeader{Durable: true},
			ApplicationProperties: map[string]any{"customer": "alice"},
			Value:                 fmt.Sprintf("order %d", number),
		}
		if err := sender.Send(ctx, message, nil); err != nil {
			return err
		}
		fmt.Printf("accepted order %d\n", number)
	}
	return nil
}

func receive(ctx context.Context, session *amqp.Session, address string) error {
	receiver, err := session.NewReceiver(ctx, address, &amqp.ReceiverOptions{Credit: 10})
	if err != nil {
		return err
	}
	defer receiver.Close(ctx)
	for range 3 {
		message, err := receiver.Receive(ctx, nil)
		if err != nil {
			return err
		}
		fmt.Printf("received %v of %v\n", message.Value, message.ApplicationProperties["customer"])
		if err := receiver.AcceptMessage(ctx, message); err != nil {
			return err
		}
	}
	return nil
}
