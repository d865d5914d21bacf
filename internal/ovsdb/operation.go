package ovsdb

import (
	"encoding/json"
	"fmt"
)

// Operation is one of a transaction; see RFC 7047, section 5.2.
type Operation any

// Row are columns by name.
type Row map[string]any

// Where is a list of conditions: column, function, value.
type Where [][3]any

// ByUUID is the row with that UUID.
func ByUUID(id string) Where { return Where{{"_uuid", "==", UUID(id)}} }

// All rows of a table.
func All() Where { return Where{} }

type (
	insert struct {
		Op    string `json:"op"`
		Table string `json:"table"`
		Row   Row    `json:"row"`
		Name  string `json:"uuid-name,omitempty"`
	}
	update struct {
		Op    string `json:"op"`
		Table string `json:"table"`
		Where Where  `json:"where"`
		Row   Row    `json:"row"`
	}
	mutate struct {
		Op        string   `json:"op"`
		Table     string   `json:"table"`
		Where     Where    `json:"where"`
		Mutations [][3]any `json:"mutations"`
	}
	remove struct {
		Op    string `json:"op"`
		Table string `json:"table"`
		Where Where  `json:"where"`
	}
	selects struct {
		Op      string   `json:"op"`
		Table   string   `json:"table"`
		Where   Where    `json:"where"`
		Columns []string `json:"columns"`
	}
	wait struct {
		Op      string   `json:"op"`
		Table   string   `json:"table"`
		Where   Where    `json:"where"`
		Columns []string `json:"columns"`
		Until   string   `json:"until"`
		Rows    []Row    `json:"rows"`
		Timeout int      `json:"timeout"`
	}
)

// Insert adds a row. name is how later operations refer to it, with NamedUUID.
func Insert(table, name string, row Row) Operation {
	return insert{Op: "insert", Table: table, Row: row, Name: name}
}

// Update sets columns of rows.
func Update(table string, where Where, row Row) Operation {
	return update{Op: "update", Table: table, Where: where, Row: row}
}

// Mutate changes a column of rows by an operator such as "insert", "delete" or "+=".
func Mutate(table string, where Where, column, operator string, value any) Operation {
	return mutate{Op: "mutate", Table: table, Where: where, Mutations: [][3]any{{column, operator, value}}}
}

// Delete removes rows.
func Delete(table string, where Where) Operation {
	return remove{Op: "delete", Table: table, Where: where}
}

// Select reads rows.
func Select(table string, where Where, columns ...string) Operation {
	return selects{Op: "select", Table: table, Where: where, Columns: columns}
}

// Assert fails the transaction unless the rows that where selects have these columns.
func Assert(table string, where Where, row Row) Operation { return waitFor(table, where, "==", row) }

// AssertNot fails the transaction if where selects exactly one row, with these columns.
// No row passes.
func AssertNot(table string, where Where, row Row) Operation { return waitFor(table, where, "!=", row) }

func waitFor(table string, where Where, until string, row Row) Operation {
	columns := make([]string, 0, len(row))
	for c := range row {
		columns = append(columns, c)
	}
	return wait{Op: "wait", Table: table, Where: where, Columns: columns, Until: until, Rows: []Row{row}}
}

// Result is that of one operation.
type Result struct {
	Count   int               `json:"count"`
	UUID    [2]string         `json:"uuid"`
	Rows    []json.RawMessage `json:"rows"`
	Error   string            `json:"error"`
	Details string            `json:"details"`
}

// TransactionError says that the server did not commit a transaction.
type TransactionError struct {
	Operation     int // which of them; as many as there are: the commit itself
	Code, Details string
}

func (e *TransactionError) Error() string {
	if e.Details == "" {
		return e.Code
	}
	return e.Code + ": " + e.Details
}

// parseResults reads the reply to a transaction with n operations.
func parseResults(raw json.RawMessage, n int) ([]Result, error) {
	var results []*Result
	if err := json.Unmarshal(raw, &results); err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	out := make([]Result, 0, n)
	for i, r := range results {
		if r == nil {
			break // not tried
		}
		if r.Error != "" {
			return nil, &TransactionError{Operation: i, Code: r.Error, Details: r.Details}
		}
		out = append(out, *r)
	}
	if len(out) != n {
		return nil, fmt.Errorf("read results: %d results of %d operations", len(out), n)
	}
	return out, nil
}
