package retail

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The calculator takes expressions of at most so many bytes and so many nested parentheses or signs.
const (
	maxExpression = 1000
	maxNesting    = 50
)

// evaluate computes + - * / ( ) over decimal numbers and rounds the value to cents.
func evaluate(expression string) (string, error) {
	if len(expression) > maxExpression {
		return "", refusal(fmt.Sprintf("expression is longer than %d bytes", maxExpression))
	}
	c := &calculator{rest: strings.Join(strings.Fields(expression), " ")}
	value, err := c.sum(0)
	if err == nil && c.peek() != 0 {
		err = refusal(fmt.Sprintf("expression is not understood at %q", c.rest))
	}
	if err != nil {
		return "", err
	}
	if math.IsInf(value, 0) || math.IsNaN(value) {
		return "", refusal("expression has no finite value")
	}
	return strconv.FormatFloat(roundCents(value), 'f', -1, 64), nil
}

// calculator is a recursive descent over what is left of an expression.
type calculator struct{ rest string }

// peek returns the next character that is not a space, 0 at the end.
func (c *calculator) peek() byte {
	c.rest = strings.TrimLeft(c.rest, " ")
	if c.rest == "" {
		return 0
	}
	return c.rest[0]
}

func (c *calculator) sum(depth int) (float64, error) {
	value, err := c.product(depth)
	for err == nil {
		op := c.peek()
		if op != '+' && op != '-' {
			break
		}
		c.rest = c.rest[1:]
		var right float64
		right, err = c.product(depth)
		if op == '-' {
			right = -right
		}
		value += right
	}
	return value, err
}

func (c *calculator) product(depth int) (float64, error) {
	value, err := c.factor(depth)
	for err == nil {
		op := c.peek()
		if op != '*' && op != '/' {
			break
		}
		c.rest = c.rest[1:]
		var right float64
		right, err = c.factor(depth)
		if op == '*' {
			value *= right
		} else {
			value /= right
		}
	}
	return value, err
}

func (c *calculator) factor(depth int) (float64, error) {
	if depth > maxNesting {
		return 0, refusal(fmt.Sprintf("expression is nested deeper than %d", maxNesting))
	}
	switch c.peek() {
	case '-':
		c.rest = c.rest[1:]
		value, err := c.factor(depth + 1)
		return -value, err
	case '(':
		c.rest = c.rest[1:]
		value, err := c.sum(depth + 1)
		if err == nil && c.peek() != ')' {
			err = refusal("expression lacks a closing parenthesis")
		}
		if err == nil {
			c.rest = c.rest[1:]
		}
		return value, err
	}
	end := strings.IndexFunc(c.rest, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end < 0 {
		end = len(c.rest)
	}
	value, err := strconv.ParseFloat(c.rest[:end], 64)
	if err != nil {
		return 0, refusal(fmt.Sprintf("expression lacks a number at %q", c.rest))
	}
	c.rest = c.rest[end:]
	return value, nil
}
