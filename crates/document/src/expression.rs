//! Whole-number arithmetic on names, as in `{2*hops+1}` and `1..hops`.

/// The whole number that a name stands for, or why it stands for none.
pub type Names<'a> = dyn Fn(&str) -> Result<i64, String> + 'a;

/// Parentheses and signs inside one another.
const DEPTH_MAX: u32 = 32;

/// Whether `text` can be a name: letters, digits and `_`, a letter or `_` first.
pub fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The value of an expression.
///
/// # Errors
/// Why it has none.
pub fn evaluate(text: &str, names: &Names<'_>) -> Result<i64, String> {
    let mut parser = Parser { text, rest: text, names };
    let value = parser.sum(0)?;
    if parser.peek().is_some() {
        return Err(parser.confused());
    }
    Ok(value)
}

/// The two ends of `first..last`.
///
/// # Errors
/// Why `text` is no range.
pub fn range(text: &str, names: &Names<'_>) -> Result<(i64, i64), String> {
    let Some((first, last)) = text.split_once("..") else {
        return Err(format!("`{text}` is no range: write one like 1..3"));
    };
    Ok((evaluate(first, names)?, evaluate(last, names)?))
}

struct Parser<'t, 's, 'a> {
    text: &'t str,
    rest: &'t str,
    names: &'s Names<'a>,
}

impl<'t> Parser<'t, '_, '_> {
    fn confused(&self) -> String {
        format!("`{}` is no whole-number expression", self.text.trim())
    }

    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|c| !keep(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn sum(&mut self, depth: u32) -> Result<i64, String> {
        let mut value = self.product(depth)?;
        while let Some(operator @ ('+' | '-')) = self.peek() {
            self.rest = &self.rest[1..];
            let right = self.product(depth)?;
            let result = if operator == '+' { value.checked_add(right) } else { value.checked_sub(right) };
            value = result.ok_or_else(|| self.too_large())?;
        }
        Ok(value)
    }

    fn product(&mut self, depth: u32) -> Result<i64, String> {
        let mut value = self.factor(depth)?;
        while let Some(operator @ ('*' | '/' | '%')) = self.peek() {
            self.rest = &self.rest[1..];
            let right = self.factor(depth)?;
            if right == 0 && operator != '*' {
                return Err(format!("`{}` divides by zero", self.text.trim()));
            }
            let result = match operator {
                '*' => value.checked_mul(right),
                '/' => value.checked_div_euclid(right),
                _ => value.checked_rem_euclid(right),
            };
            value = result.ok_or_else(|| self.too_large())?;
        }
        Ok(value)
    }

    fn factor(&mut self, depth: u32) -> Result<i64, String> {
        if depth > DEPTH_MAX {
            return Err(format!("`{}` is nested too deeply", self.text.trim()));
        }
        match self.peek() {
            Some('-') => {
                self.rest = &self.rest[1..];
                self.factor(depth + 1)?.checked_neg().ok_or_else(|| self.too_large())
            }
            Some('(') => {
                self.rest = &self.rest[1..];
                let value = self.sum(depth + 1)?;
                if self.peek() != Some(')') {
                    return Err(self.confused());
                }
                self.rest = &self.rest[1..];
                Ok(value)
            }
            Some('0'..='9') => self.take_while(|c| c.is_ascii_digit()).parse().map_err(|_| self.too_large()),
            Some('a'..='z' | 'A'..='Z' | '_') => {
                let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
                (self.names)(name)
            }
            _ => Err(self.confused()),
        }
    }

    fn too_large(&self) -> String {
        format!("`{}` does not fit in 64 bits", self.text.trim())
    }
}
