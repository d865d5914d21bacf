package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// mutant is one change.
type mutant struct {
	ID           int
	File         string
	Line, Column int
	Func         string // in which it is
	Old, New     string
}

// others are what an operator is replaced by.
var others = map[token.Token][]token.Token{
	token.EQL:  {token.NEQ},
	token.NEQ:  {token.EQL},
	token.LSS:  {token.LEQ, token.GEQ},
	token.LEQ:  {token.LSS, token.GTR},
	token.GTR:  {token.GEQ, token.LEQ},
	token.GEQ:  {token.GTR, token.LSS},
	token.LAND: {token.LOR},
	token.LOR:  {token.LAND},
	token.ADD:  {token.SUB},
	token.SUB:  {token.ADD},
}

// mutator writes a file with all its mutants. Each is behind a call of mutantOn with its
// number, on the line of what it replaces.
type mutator struct {
	path     string
	source   []byte
	fset     *token.FileSet
	info     *types.Info
	next     int // number of the next mutant
	mutants  []mutant
	function string
	// ifs are the conditions of if statements.
	ifs map[ast.Expr]bool
}

// file returns the text of f with its mutants.
func (m *mutator) file(f *ast.File) string {
	m.ifs = map[ast.Expr]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.IfStmt); ok {
			m.ifs[s.Cond] = true
		}
		return true
	})
	return m.text(f)
}

// original returns the text of n as it is in the source.
func (m *mutator) original(n ast.Node) string {
	return string(m.source[m.offset(n.Pos()):m.offset(n.End())])
}

func (m *mutator) offset(p token.Pos) int { return m.fset.Position(p).Offset }

// text returns the text of n with the mutants of everything in it.
func (m *mutator) text(n ast.Node) string {
	from, to := m.offset(n.Pos()), m.offset(n.End())
	if f, ok := n.(*ast.File); ok {
		from, to = 0, m.fset.File(f.Pos()).Size()
	}
	var out strings.Builder
	ast.Inspect(n, func(c ast.Node) bool {
		if c == nil || c == n {
			return c != nil
		}
		if !m.interesting(c) {
			return true
		}
		out.Write(m.source[from:m.offset(c.Pos())])
		out.WriteString(m.rewrite(c))
		from = m.offset(c.End())
		return false
	})
	out.Write(m.source[from:to])
	return out.String()
}

// interesting nodes are rewritten, others only copied.
func (m *mutator) interesting(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl, *ast.BinaryExpr, *ast.UnaryExpr, *ast.Ident:
		return true
	case *ast.GenDecl:
		return n.Tok != token.VAR
	case ast.Expr:
		return m.ifs[n]
	}
	return false
}

// rewrite returns the text of an interesting node with its mutants and those in it.
func (m *mutator) rewrite(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GenDecl:
		return m.original(n) // constants, types and imports have no mutants
	case *ast.FuncDecl:
		m.function = name(n)
		defer func() { m.function = "" }()
		return m.text(n)
	case ast.Expr:
		if m.ifs[n] && !m.negated(n) {
			id := m.add(n, m.original(n), "!("+m.original(n)+")")
			return fmt.Sprintf("(mutantOn(%d) != (%s))", id, m.expression(n))
		}
		return m.expression(n)
	}
	panic(fmt.Sprintf("mutants: %T", n))
}

// negated says whether e as a whole is negated by a mutant of its operator.
func (m *mutator) negated(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.UnaryExpr:
		return x.Op == token.NOT
	case *ast.BinaryExpr:
		return x.Op != token.LAND && x.Op != token.LOR
	}
	return m.isBool(e)
}

func name(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

func (m *mutator) expression(e ast.Expr) string {
	if tv := m.info.Types[e]; tv.Value != nil && !m.isBool(e) {
		return m.original(e) // a constant
	}
	switch x := e.(type) {
	case *ast.Ident:
		if v := m.info.Uses[x]; v == types.Universe.Lookup("true") || v == types.Universe.Lookup("false") {
			other := map[string]string{"true": "false", "false": "true"}[x.Name]
			return fmt.Sprintf("(mutantOn(%d) != %s)", m.add(x, x.Name, other), x.Name)
		}
		return x.Name
	case *ast.UnaryExpr:
		inside := m.text(x)
		if x.Op != token.NOT {
			return inside
		}
		return fmt.Sprintf("(mutantOn(%d) != (%s))", m.add(x, m.original(x), m.original(x.X)), inside)
	case *ast.BinaryExpr:
		return m.binary(x)
	}
	return m.text(e)
}

// isBool says whether e is one of the constants true and false.
func (m *mutator) isBool(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && (id.Name == "true" || id.Name == "false")
}

func (m *mutator) binary(x *ast.BinaryExpr) string {
	replacements := others[x.Op]
	t := m.info.Types[x].Type
	basic, ok := t.Underlying().(*types.Basic)
	if len(replacements) == 0 || !ok {
		return m.text(x)
	}
	if x.Op == token.ADD || x.Op == token.SUB {
		if basic.Info()&types.IsNumeric == 0 {
			return m.text(x)
		}
		id := m.add(x, m.original(x), m.with(x, replacements[0]))
		return fmt.Sprintf("mutant%s(%d, %s, %s)", map[token.Token]string{token.ADD: "Add", token.SUB: "Sub"}[x.Op], id, m.operand(x.X), m.operand(x.Y))
	}
	if _, defined := t.(*types.Named); defined {
		return m.text(x)
	}
	var on, changed []string
	for _, r := range replacements {
		text := m.with(x, r)
		id := m.add(x, m.original(x), text)
		on = append(on, fmt.Sprintf("mutantOn(%d)", id))
		changed = append(changed, fmt.Sprintf("mutantOn(%d) && (%s)", id, text))
	}
	return fmt.Sprintf("(%s || !(%s) && (%s))", strings.Join(changed, " || "), strings.Join(on, " || "), m.text(x))
}

// operand returns the text of one side of a sum.
func (m *mutator) operand(e ast.Expr) string {
	if m.interesting(e) {
		return m.rewrite(e)
	}
	return m.text(e)
}

// with returns the text of x with another operator. A condition over several lines
// becomes one line: an operator must not stand first.
func (m *mutator) with(x *ast.BinaryExpr, op token.Token) string {
	return m.original(x.X) + " " + op.String() + " " + m.original(x.Y)
}

// add notes a mutant and returns its number.
func (m *mutator) add(n ast.Node, before, after string) int {
	p := m.fset.Position(n.Pos())
	if b, ok := n.(*ast.BinaryExpr); ok {
		p = m.fset.Position(b.OpPos)
	}
	id := m.next
	m.next++
	m.mutants = append(m.mutants, mutant{ID: id, File: m.path, Line: p.Line, Column: p.Column, Func: m.function, Old: flat(before), New: flat(after)})
	return id
}

func flat(s string) string { return strings.Join(strings.Fields(s), " ") }

func sortFiles(fset *token.FileSet, files []*ast.File) {
	slices.SortFunc(files, func(a, b *ast.File) int {
		return strings.Compare(fset.File(a.Pos()).Name(), fset.File(b.Pos()).Name())
	})
}
