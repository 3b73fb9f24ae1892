# Prints the value at a path in a JSON text: awk -v want=.attempt.number -f json.awk
# Text is printed as it reads, anything else as it is written; nothing for null, and for what is not there.

{ json = json $0 "\n" }
END { at = 1; value("") }

function value(path,    start, first, key, number) {
    blanks(); start = at; first = substr(json, at, 1)
    if (first == "{") {
        for (at++; blanks() != "}"; ) {
            key = text(); blanks(); at++
            value(path "." key)
            if (blanks() == ",") { at++; blanks() }
        }
        at++
    } else if (first == "[") {
        for (at++; blanks() != "]"; ) {
            value(path "." number++)
            if (blanks() == ",") { at++; blanks() }
        }
        at++
    } else if (first == "\"") {
        first = text()
        if (path == want) printf "%s", first
        return
    } else {
        while (index(",]} \t\r\n", substr(json, at, 1)) == 0) at++
        if (substr(json, start, at - start) == "null") return
    }
    if (path == want) printf "%s", substr(json, start, at - start)
}

function blanks() {
    while (at <= length(json) && index(" \t\r\n", substr(json, at, 1))) at++
    if (at > length(json)) exit 1
    return substr(json, at, 1)
}

function text(    found, next_one, code) {
    for (at++; (next_one = substr(json, at, 1)) != "\""; at++) {
        if (next_one == "") exit 1
        if (next_one == "\\") {
            next_one = substr(json, ++at, 1)
            if (next_one == "u") {
                code = hex(substr(json, at + 1, 4)); at += 4
                if (code >= 55296 && code < 56320 && substr(json, at + 1, 2) == "\\u") {
                    code = 65536 + (code - 55296) * 1024 + hex(substr(json, at + 3, 4)) - 56320; at += 6
                }
                next_one = utf8(code)
            } else if (index("bfnrt", next_one)) {
                next_one = substr("\b\f\n\r\t", index("bfnrt", next_one), 1)
            }
        }
        found = found next_one
    }
    at++
    return found
}

function hex(digits,    number, place) {
    for (place = 1; place <= 4; place++) number = number * 16 + index("0123456789abcdef", tolower(substr(digits, place, 1))) - 1
    return number
}

function utf8(code) { # in the C locale, where %c is one byte
    if (code < 128) return sprintf("%c", code)
    if (code < 2048) return sprintf("%c%c", 192 + int(code / 64), 128 + code % 64)
    if (code < 65536) return sprintf("%c%c%c", 224 + int(code / 4096), 128 + int(code / 64) % 64, 128 + code % 64)
    return sprintf("%c%c%c%c", 240 + int(code / 262144), 128 + int(code / 4096) % 64, 128 + int(code / 64) % 64, 128 + code % 64)
}
