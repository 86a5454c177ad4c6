//! A component without a program: functions of all types, for calls of exports.

wit_bindgen::generate!({
    inline: r#"
        package test:exports@1.2.3;

        interface shapes {
            record point { x: f64, y: f64 }
            variant shape { dot, circle(f64), line(tuple<point, point>) }
            enum color { red, dark-blue }
            flags style { bold, wide }
            same-shape: func(it: shape) -> shape;
            same-color: func(it: color) -> color;
            same-style: func(it: style) -> style;
            same-points: func(it: list<point>) -> list<point>;
            add: func(a: s32, b: s32) -> s32;
        }

        interface others {
            add: func(a: u64, b: u64) -> u64;
            pair: func() -> tuple<u8, string>;
        }

        world exports {
            export shapes;
            export others;
            export greet: func(name: string, count: option<u32>) -> result<string, string>;
            export same-float: func(it: f32) -> f32;
            export same-char: func(it: char) -> char;
            export save: func(path: string, text: string) -> result;
            export nothing: func();
            export fail: func();
        }
    "#,
});

use exports::test::exports::others::Guest as Others;
use exports::test::exports::shapes::{Color, Guest as Shapes, Point, Shape, Style};

struct Component;

export!(Component);

impl Guest for Component {
    fn greet(name: String, count: Option<u32>) -> Result<String, String> {
        match count {
            Some(0) => Err("nobody".to_owned()),
            count => Ok(format!("hello {name}").repeat(count.unwrap_or(1) as usize)),
        }
    }

    fn same_float(it: f32) -> f32 {
        it
    }

    fn same_char(it: char) -> char {
        it
    }

    fn save(path: String, text: String) -> Result<(), ()> {
        std::fs::write(path, text).map_err(|_| ())
    }

    fn nothing() {}

    fn fail() {
        panic!("it fails");
    }
}

impl Shapes for Component {
    fn same_shape(it: Shape) -> Shape {
        it
    }

    fn same_color(it: Color) -> Color {
        it
    }

    fn same_style(it: Style) -> Style {
        it
    }

    fn same_points(it: Vec<Point>) -> Vec<Point> {
        it
    }

    fn add(a: i32, b: i32) -> i32 {
        a.wrapping_add(b)
    }
}

impl Others for Component {
    fn add(a: u64, b: u64) -> u64 {
        a.wrapping_add(b)
    }

    fn pair() -> (u8, String) {
        (7, "seven".to_owned())
    }
}
