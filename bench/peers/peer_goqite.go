package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"maragu.dev/goqite"
	_ "modernc.org/sqlite" // SQLite without C
)

var goqiteQueue = peer{
	name:   "goqite",
	module: "maragu.dev/goqite",
	gives: map[promise]string{
		processCrash: "SQLite with `synchronous=NORMAL`, which in WAL mode syncs at checkpoints only",
		powerLoss:    "SQLite with `synchronous=FULL`",
	},
	batch:   "`SendTx` in one transaction: atomic",
	atomic:  true,
	removes: true,
	notes: "On modernc.org/sqlite. As its README: journal in WAL mode, a busy timeout of 5 s, foreign keys, `SetMaxOpenConns(1)`. " +
		"A read is `ReceiveTx` and `DeleteTx`, 32 messages in a transaction.",
	open: openGoqite,
}

// goqiteSchema is the part of goqite's schema_sqlite.sql that its users are told to run first.
const goqiteSchema = `
create table if not exists goqite (
  id text primary key default ('m_' || lower(hex(randomblob(16)))),
  created text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  updated text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  queue text not null,
  body blob not null,
  timeout text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  received integer not null default 0,
  priority integer not null default 0
) strict;
create trigger if not exists goqite_updated_timestamp after update on goqite begin
  update goqite set updated = strftime('%Y-%m-%dT%H:%M:%fZ') where id = old.id;
end;
create index if not exists goqite_queue_priority_created_idx on goqite (queue, priority desc, created);`

type goqiteAdapter struct {
	drained
	db    *sql.DB
	queue *goqite.Queue
}

func openGoqite(dir string, p promise, _ int) (queue, error) {
	synchronous := "NORMAL"
	if p == powerLoss {
		synchronous = "FULL"
	}
	pragmas := url.Values{"_pragma": {
		"journal_mode(WAL)", "busy_timeout(5000)", "foreign_keys(1)", "synchronous(" + synchronous + ")",
	}}
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(dir, "goqite.db"))+"?"+pragmas.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(context.Background(), goqiteSchema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &goqiteAdapter{db: db, queue: goqite.New(goqite.NewOpts{DB: db, Name: "bench", Timeout: time.Hour})}, nil
}

func (q *goqiteAdapter) Put(body []byte) error {
	return q.queue.Send(context.Background(), goqite.Message{Body: body})
}

func (q *goqiteAdapter) PutBatch(bodies [][]byte) error {
	return q.inTransaction(func(ctx context.Context, tx *sql.Tx) error {
		for _, body := range bodies {
			if err := q.queue.SendTx(ctx, tx, goqite.Message{Body: body}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (q *goqiteAdapter) ReadAll(batch int, yield func([]byte) error) error {
	for more := true; more; {
		err := q.inTransaction(func(ctx context.Context, tx *sql.Tx) (err error) {
			for i := 0; i < batch && more && err == nil; i++ {
				more, err = q.take(ctx, tx, yield)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// take receives one message and deletes it. It returns false if there is none.
func (q *goqiteAdapter) take(ctx context.Context, tx *sql.Tx, yield func([]byte) error) (bool, error) {
	m, err := q.queue.ReceiveTx(ctx, tx)
	if err != nil || m == nil {
		return false, err
	}
	if err := q.queue.DeleteTx(ctx, tx, m.ID); err != nil {
		return false, err
	}
	return true, yield(m.Body)
}

func (q *goqiteAdapter) inTransaction(do func(context.Context, *sql.Tx) error) error {
	ctx := context.Background()
	tx, err := q.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := do(ctx, tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (q *goqiteAdapter) Close() error { return q.db.Close() }
